/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/wait.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ready;

static void *work(void *argument)
{
    char *block = malloc(1 << 20);

    memset(block, 1, 1 << 20);
    free(block);
    pthread_mutex_lock(&lock);
    ready++;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void)
{
    pthread_t threads[8];
    struct timespec pause = {0, 1000000};
    sem_t *semaphore =
        mmap(NULL, sizeof(*semaphore), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2], status, fd;
    char text[8] = "";

    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            return 1;
    pthread_mutex_lock(&lock);
    while (ready < 8)
        pthread_cond_wait(&cond, &lock);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    if (sem_init(semaphore, 1, 0) || pipe(ends))
        return 2;
    if (fork() == 0) {
        if (write(ends[1], "child", 5) != 5)
            _exit(1);
        sem_post(semaphore);
        _exit(3);
    }
    sem_wait(semaphore);
    if (read(ends[0], text, 5) != 5 || wait(&status) < 0 || WEXITSTATUS(status) != 3)
        return 3;
    fd = shm_open("/named", O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, 4096) || shm_unlink("/named"))
        return 4;
    nanosleep(&pause, NULL);
    printf("%s %.3f\n", text, sqrt(2));
    return 0;
}
