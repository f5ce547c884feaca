// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <regex>
#include <stdexcept>
#include <thread>
#include <vector>

int main()
{
    std::atomic<int> sum{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&sum, i] { sum += i; });
    for (auto &thread : threads)
        thread.join();
    auto later = std::async(std::launch::async, [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return 14;
    });
    try {
        throw std::runtime_error("caught");
    } catch (const std::exception &error) {
        if (std::string(error.what()) != "caught")
            return 1;
    }
    std::filesystem::create_directories("a/b");
    std::ofstream("a/b/c") << "text";
    std::map<std::string, int> count;
    for (const auto &entry : std::filesystem::recursive_directory_iterator("a"))
        count[entry.path().filename().string()]++;
    if (!std::regex_match("crisol-42", std::regex("[a-z]+-[0-9]+")))
        return 2;
    std::cout << sum + later.get() << " " << count.size() << std::endl;
    return 0;
}
