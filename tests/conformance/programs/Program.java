// SPDX-License-Identifier: Apache-2.0
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

public class Program {
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<Integer>> futures = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            final int n = i;
            futures.add(pool.submit(() -> new byte[1 << 20].length / (1 << 20) * n));
        }
        int sum = 0;
        for (Future<Integer> future : futures)
            sum += future.get();
        Path file = Files.createTempFile("crisol", ".txt");
        Files.writeString(file, "text");
        String text = Files.readString(file);
        Process child = new ProcessBuilder("/bin/sh", "-c", "exit 5").start();
        int code = child.waitFor();
        byte[] got;
        try (ServerSocket server = new ServerSocket(0)) {
            Future<byte[]> reader = pool.submit(() -> {
                try (Socket peer = server.accept()) {
                    return peer.getInputStream().readAllBytes();
                }
            });
            try (Socket client = new Socket("127.0.0.1", server.getLocalPort())) {
                client.getOutputStream().write(new byte[] {1, 2, 3});
            }
            got = reader.get();
        }
        pool.shutdown();
        long primes = IntStream.range(2, 5000).parallel()
            .filter(n -> IntStream.rangeClosed(2, (int) Math.sqrt(n)).noneMatch(d -> n % d == 0)).count();
        System.gc();
        System.out.println(sum + " " + text + " " + code + " " + got.length + " " + primes);
    }
}
