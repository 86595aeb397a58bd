// Run lists and line filters: nothing is lost, whatever the order, damage is refused, and false claims are as few and as
// independent as promised.
#include <algorithm>
#include <cmath>
#include <set>

#include "check.hpp"
#include "tidings/tracking/line_filter.hpp"
#include "tidings/tracking/run_codec.hpp"

using namespace tidings;
using units::Random;

namespace {

using Id = RunList::Id;

Id made(uint32_t publisher, uint32_t broker, uint64_t ms, uint16_t counter) {
    return {__builtin_bswap64(uint64_t{publisher} << 32 | broker), __builtin_bswap64(ms << 16 | counter)};
}

// Of few or many publishers and brokers, in runs, out of order and repeated now and then.
std::vector<Id> some(Random& random) {
    std::vector<Id> ids;
    const uint32_t publishers = 1 + random() % (1 << random() % 12);
    uint64_t ms = random() % 3 ? 1'700'000'000'000 : random() % (1ull << 48);
    for (uint64_t left = random() % 3000; left; --left) {
        ms = std::min<uint64_t>(ms + (random() % 8 == 0), (1ull << 48) - 2);
        const auto publisher = static_cast<uint32_t>(random() % publishers * 2'654'435'761u);
        const uint32_t broker = random() % 50 ? 1 : static_cast<uint32_t>(random());
        for (uint64_t more = random() % 4; more; --more)
            ids.push_back(
                made(publisher, broker, ms - random() % 2, static_cast<uint16_t>(random() % 5 ? more : random())));
    }
    return ids;
}

const uint8_t* bytes(const std::vector<Id>& ids) { return reinterpret_cast<const uint8_t*>(ids.data()); }

std::vector<Id> strangers(Random& random, size_t count) {
    std::vector<Id> ids(count);
    for (Id& id : ids) id = {random(), random()};
    return ids;
}

}  // namespace

TEST(run_lists_are_exact) {
    Random random(1);
    for (int round = 0; round < 60; ++round) {
        const std::vector<Id> ids = some(random);
        const std::set<Id> truth(ids.begin(), ids.end());
        RunList list;
        for (const Id& id : ids) list.add(id);
        for (const Id& id : ids) CHECK(list.scan(id));
        list.sort();
        CHECK(list.count() == truth.size());
        const std::string data = RunCodec::encode(list);
        const RunList read = RunCodec::decode(data);
        CHECK(read.runs() == list.runs());
        CHECK(RunCodec::encode(read) == data);
        std::set<Id> found;
        read.each([&](const Id& id) { found.insert(id); });
        CHECK(found == truth);
        for (const Id& id : ids) {
            const Id next = {id[0], __builtin_bswap64(__builtin_bswap64(id[1]) + 1)};
            CHECK(read.find(id));
            CHECK(read.find(next) == truth.contains(next));
            CHECK(list.scan(next) == truth.contains(next));
        }
    }
}

TEST(damaged_run_lists_are_refused) {
    Random random(2);
    for (int round = 0; round < 400; ++round) {
        RunList list;
        for (const Id& id : some(random)) list.add(id);
        list.sort();
        std::string data = RunCodec::encode(list);
        if (round % 2) data.resize(random() % data.size());
        else data[random() % data.size()] = static_cast<char>(random());
        try {
            const RunList read = RunCodec::decode(data);
            RunList sorted = read;  // another list
            sorted.sort();
            CHECK(RunCodec::decode(RunCodec::encode(sorted)).runs() == sorted.runs());
        } catch (const CodecError& error) {
            CHECK(std::string_view(error.code).starts_with("E_RUNS_"));
        }
    }
}

TEST(one_publisher_takes_no_bits_an_id) {
    RunList list;
    for (uint32_t i = 0; i < 100'000; ++i)
        list.add(made(7, 1, 1'700'000'000'000 + i / 4000, static_cast<uint16_t>(i % 4000)));
    list.sort();
    CHECK(RunCodec::encode(list).size() < 200);
}

TEST(other_publishers_for_each_message_take_what_their_numbers_tell) {
    Random random(5);
    RunList random_numbers, dense;
    for (uint32_t i = 0; i < 65'536; ++i) {
        random_numbers.add(made(static_cast<uint32_t>(random() >> 35), 1, 1'700'000'000'000 + i / 5, 0));
        dense.add(made(i + 1, 1, 1'700'000'000'000 + i / 5, 0));
    }
    for (RunList* list : {&random_numbers, &dense}) list->sort();
    CHECK(RunCodec::encode(random_numbers).size() < 65'536 * 30 / 8);
    CHECK(RunCodec::encode(dense).size() < 65'536 * 3 / 8);
}

TEST(numbers_of_publishers_are_a_permutation) {
    const PublisherNumbering numbers(0x1234'5678'9abc'def0);
    std::set<uint64_t> seen;
    for (uint64_t count = 0; count < 50'000; ++count) {
        const uint64_t number = numbers.number_of(count);
        CHECK(number >> 29 == 0 && seen.insert(number).second);
        CHECK(numbers.count_of(number) == count);
        CHECK(numbers.count_of(number | 5ull << 29) == (count | 5ull << 29));
    }
    CHECK(*seen.rbegin() - *seen.begin() > 1u << 28);
}

TEST(lists_that_know_the_numbering_are_smaller_and_the_same) {
    Random random(6);
    RunList list;
    const PublisherNumbering numbers(random());
    const uint64_t key = 77;
    const PublisherNumbering own(key);
    for (uint32_t i = 0; i < 500; ++i)
        list.add(made(static_cast<uint32_t>(own.number_of(random() % 300)), 1, 1'700'000'000'000 + i * 10, 0));
    list.sort();
    const std::string plain = RunCodec::encode(list);
    list.numbering = key;
    const std::string smaller = RunCodec::encode(list);
    CHECK(smaller.size() + 600 < plain.size());
    CHECK(RunCodec::decode(smaller).runs() == list.runs());
    CHECK(RunCodec::decode(smaller).numbering == key);
    CHECK(RunCodec::encode(RunCodec::decode(smaller)) == smaller);
}

TEST(run_lists_of_the_first_form_are_read) {
    const std::string data = "TRL1\x05\x02\x90\x4e\x87\x80\x80\x80\x10\x02\x01\x01\x28\x02\x01\x02\x05";
    const RunList list = RunCodec::decode(data);
    const uint64_t source = uint64_t{1} << 32 | 7, at = 10'000ull << 16;
    const std::vector<RunList::Run> expected = {
        {source, at, 3}, {source, (10'010ull << 16), 1}, {source + 2, at | 5, 1}};
    CHECK(list.runs() == expected);
}

TEST(line_filters_hold_what_was_added_and_err_as_they_say) {
    Random random(3);
    uint64_t wrong = 0, asked = 0;
    double expected = 0;
    for (const size_t count : {1, 10, 4096, 40'000}) {
        const std::vector<Id> ids = strangers(random, count);
        LineFilter filter(count, random());
        filter.add(bytes(ids), count);
        const LineFilter read = LineFilter::decode(filter.encode());
        CHECK(filter.encode().size() == LineFilter::bytes_for(count));
        std::vector<uint8_t> found(count);
        read.contains(bytes(ids), count, found.data());
        CHECK(std::ranges::all_of(found, [](uint8_t one) { return one == 1; }));
        CHECK(count < 1000 || (read.fpp() > 3e-6 && read.fpp() < 5e-6));
        if (count != 40'000) continue;
        for (int round = 0; round < 30; ++round) {
            const std::vector<Id> others = strangers(random, 1 << 16);
            found.resize(others.size());
            read.contains(bytes(others), others.size(), found.data());
            wrong += static_cast<uint64_t>(std::ranges::count(found, 1));
            asked += others.size();
        }
        expected = read.fpp() * static_cast<double>(asked);
    }
    CHECK(std::abs(static_cast<double>(wrong) - expected) < 5 * std::sqrt(expected) + 3);
}

TEST(line_filters_of_different_seeds_err_independently) {
    Random random(4);
    const std::vector<Id> ids = strangers(random, 2000);
    LineFilter one(500, 1), other(500, 2);  // four times as many as there is room for: they err often
    one.add(bytes(ids), ids.size());
    other.add(bytes(ids), ids.size());
    const std::vector<Id> asked = strangers(random, 1 << 18);
    std::vector<uint8_t> first(asked.size()), second(asked.size());
    one.contains(bytes(asked), asked.size(), first.data());
    other.contains(bytes(asked), asked.size(), second.data());
    double a = 0, b = 0, both = 0;
    for (size_t i = 0; i < asked.size(); ++i) a += first[i], b += second[i], both += first[i] & second[i];
    const double expected = a * b / static_cast<double>(asked.size());
    CHECK(a > 1000 && b > 1000);
    CHECK(std::abs(both - expected) < 5 * std::sqrt(expected));
}

TEST(damaged_line_filters_are_refused) {
    const std::string data = LineFilter(10, 5).encode();
    const auto code = [](std::string damaged) { return units::code_of([&] { LineFilter::decode(damaged); }); };
    CHECK(code(data).empty());
    CHECK(code(data.substr(0, 31)) == "E_LINES_SHORT");
    CHECK(code(data.substr(0, data.size() - 1)) == "E_LINES_LENGTH");
    CHECK(code("XXXX" + data.substr(4)) == "E_LINES_MAGIC");
    CHECK(code(data.substr(0, 4) + std::string(4, '\0') + data.substr(8)) == "E_LINES_SIZE");
    CHECK(code(data.substr(0, 24) + "x" + data.substr(25)) == "E_LINES_RESERVED");
}
