// Standard Webhooks 1.0: the published vector, an independent verifier, tampered ones refused, rotation.
#include <catch2/catch.hpp>

#include <sstream>

#include "agent/base/base64.h"
#include "agent/base/json.h"
#include "agent/base/random.h"
#include "agent/kernel/webhooks.h"
#include "agent/work/signature.h"
#include "tests/support/process.h"

namespace bide {
namespace {

struct Case {
  std::string secret, id, body, signature;
  std::int64_t timestamp = 0;
};

std::string line_of(const Case& one) {
  json::Writer w;
  w.begin_object().member("secret", one.secret).member("id", one.id).member("timestamp", one.timestamp);
  return w.member("body", base64(one.body)).member("signature", one.signature).end_object().take() + "\n";
}

// "ok" and "no" by the Python verifier, in order.
std::vector<std::string> verified(const std::string& lines) {
  const auto done = test::run(
      {.argv = {"python3", "-B", std::string(BIDE_SOURCE_DIR) + "/tests/work/verify_signatures.py"}, .input = lines});
  REQUIRE(done.exit == test::Exit{0, 0});
  std::istringstream in(done.out);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The vectors that the libraries of Standard Webhooks test with, and that its verification guide shows.
const std::vector<Case> kPublished = {
    {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", R"({"test": 2432232314})",
     "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", 1614265330},
    {"whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", R"({"event_type":"ping","data":{"success":true}})",
     "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=", 1731705121},
};

TEST_CASE("[O6] the published test vectors of Standard Webhooks: ours, and those of the independent verifier") {
  const Case& first = kPublished[0];
  CHECK(work::sign({first.secret}, first.id, first.timestamp, first.body) == first.signature);
  CHECK(work::sign({kPublished[1].secret}, "m", 1, "{}").empty());  // a key of 18 bytes: the standard asks for 24
  std::string lines;
  for (Case one : kPublished) {
    lines += line_of(one);
    one.timestamp += 1;
    lines += line_of(one);
  }
  CHECK(verified(lines) == std::vector<std::string>{"ok", "no", "ok", "no"});
}

TEST_CASE("[O6] an independent verifier takes 500 signatures, and none of 10000 that were tampered with") {
  SeededRandom random(7);
  std::string good;
  std::string bad;
  int tampered = 0;
  for (int i = 0; i < 500; ++i) {
    Case one;
    one.secret = work::make_secret(random);
    one.id = "msg_" + random.uid();
    one.timestamp = static_cast<std::int64_t>(random.next() % 4'000'000'000);
    for (std::uint64_t n = 1 + random.next() % 300; n > 0; --n) one.body.push_back(static_cast<char>(random.next()));
    one.signature = work::sign({one.secret}, one.id, one.timestamp, one.body);
    good += line_of(one);
    for (int k = 0; k < 20; ++k, ++tampered) {
      Case other = one;
      const auto flip = [&](std::string& text, std::size_t from) {
        char& c = text[from + random.next() % (text.size() - from)];
        c = static_cast<char>(c == 'A' ? 'B' : 'A');
      };
      switch (k % 5) {
        case 0: other.body[random.next() % other.body.size()] ^= 1; break;
        case 1: flip(other.id, 4); break;
        case 2: other.timestamp += 1; break;
        case 3: other.secret = work::make_secret(random); break;
        case 4: {
          const std::string before = other.signature;
          std::string cut =
              other.signature.substr(0, other.signature.size() - 2);  // the last characters carry few bits
          flip(cut, 3);
          other.signature = cut + before.substr(before.size() - 2);
          if (other.signature == before) other.signature[3] = before[3] == 'x' ? 'y' : 'x';
          break;
        }
      }
      if (other.id == one.id && other.body == one.body && other.timestamp == one.timestamp &&
          other.secret == one.secret && other.signature == one.signature)
        other.body += "x";
      bad += line_of(other);
    }
  }
  const auto taken = verified(good);
  CHECK(std::count(taken.begin(), taken.end(), "ok") == 500);
  const auto refused = verified(bad);
  CHECK(tampered == 10'000);
  CHECK(std::count(refused.begin(), refused.end(), "no") == 10'000);
}

TEST_CASE("[O6] rotation: both secrets sign for a day, then the new one alone") {
  const std::string secrets = R"([{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx","until":null},)"
                              R"({"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","until":1000}])";
  CHECK(kernel::signing_secrets(secrets, 999).size() == 2);
  CHECK(kernel::signing_secrets(secrets, 1000).size() == 1);
  const std::string both = work::sign(kernel::signing_secrets(secrets, 0), "m", 1, "{}");
  CHECK(both.find(" v1,") != std::string::npos);
  const auto answers = verified(line_of({"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", "m", "{}", both, 1}) +
                                line_of({"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "m", "{}", both, 1}));
  CHECK(answers == std::vector<std::string>{"ok", "ok"});
}

TEST_CASE("[O6] a secret is whsec_ and 24 to 64 bytes, else it signs nothing") {
  for (const char* wrong :
       {"", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!!", "whpk_AAAA"}) {
    INFO(wrong);
    CHECK_FALSE(work::secret_key(wrong));
    CHECK(work::sign({wrong}, "m", 1, "{}").empty());
  }
  SeededRandom random(1);
  CHECK(work::secret_key(work::make_secret(random))->size() == 32);
}

}  // namespace
}  // namespace bide
