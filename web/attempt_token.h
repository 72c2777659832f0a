// Whether a token of an attempt is one: what the Auth of an agent asks on a pool thread. Any thread; faults of the
// store are thrown.
#pragma once

#include "agent/work/executor.h"
#include "agent/work/remotes.h"
#include "db/store.h"
#include "web/auth.h"

namespace bide::web {

// A program's or an app's: its attempt is driven here, or leased by the app, and has this secret. A step's command's:
// its nonce is that of an execution that goes on, in a driven attempt or under a holder that lives, though nobody
// drives the run just now [K2]. `remotes`: null: no app drives anything.
[[nodiscard]] bool attempt_token_is_known(const work::Executor& executor, work::Remotes* remotes, db::Store& store,
                                          const AttemptToken& token);

}  // namespace bide::web
