// What the fuzzers do with one input. Each aborts when a property does not hold; libFuzzer and the short lane with
// generated inputs call the same functions.
#pragma once

#include <string_view>

namespace bide::fuzz {

// json::check, canonical, members and pointers: no crash, an accepted document has a stable canonical form that is
// accepted, a refusal lies within the text, and what another parser accepts or refuses is accepted or refused here.
void json(std::string_view input);
// parse_time, parse_duration, parse_number: what is read is written and read back the same.
void times(std::string_view input);
// percent-encoding, UTF-8, trim, quote.
void text(std::string_view input);
// The HTTP gate: what gate_oracle.h says.
void gate(std::string_view input);

}  // namespace bide::fuzz
