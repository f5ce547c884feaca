# SPDX-License-Identifier: Apache-2.0
import threading

import numpy as np

rng = np.random.default_rng(7)
a = rng.random((300, 300))
inverse = np.linalg.inv(a)
assert np.allclose(a @ inverse, np.eye(300), atol=1e-6)
values, vectors = np.linalg.eigh(a @ a.T)
assert np.all(values > -1e-9) and vectors.shape == (300, 300)
results = [None] * 4


def work(i):
    results[i] = float(np.linalg.norm(rng.random((200, 200)) @ np.ones(200)))


threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert all(value > 0 for value in results)
np.save("a.npy", a)
assert np.array_equal(np.load("a.npy", mmap_mode="r"), a)
assert np.allclose(np.fft.ifft(np.fft.fft(a)).real, a)
print("fine")
