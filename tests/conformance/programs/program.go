// SPDX-License-Identifier: Apache-2.0
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func main() {
	var group sync.WaitGroup
	results := make(chan int, 100)
	for i := 0; i < 100; i++ {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			block := make([]byte, 1<<16)
			results <- n + len(block) - 1<<16
		}(i)
	}
	group.Wait()
	close(results)
	sum := 0
	for n := range results {
		sum += n
	}
	runtime.GC()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		peer, _ := listener.Accept()
		fmt.Fprint(peer, "hello")
		peer.Close()
	}()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		panic(err)
	}
	text, _ := io.ReadAll(client)
	out, err := exec.Command("/bin/sh", "-c", "echo child").Output()
	if err != nil {
		panic(err)
	}
	file, err := os.CreateTemp("", "crisol")
	if err != nil {
		panic(err)
	}
	file.WriteString("x")
	notes := make(chan os.Signal, 1)
	signal.Notify(notes, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	select {
	case <-notes:
	case <-time.After(10 * time.Second):
		panic("no signal")
	}
	fmt.Println(sum, string(text), string(out[:5]))
}
