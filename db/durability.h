// What an answered write has survived.
#pragma once

namespace bide::db {

enum class Durability { full, relaxed };  // synchronous=FULL, or NORMAL: the operator's choice [C3]

}  // namespace bide::db
