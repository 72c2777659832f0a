// Every bound of the project, each with its because. "Guess" means that nobody has measured it yet.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bide::limits {

// The becauses stand in one column.
// clang-format off

// Sizes at the door [D5].
inline constexpr std::size_t kDocumentBytes = 1 << 20;      // input, answer, payload, result: read whole into memory
inline constexpr std::size_t kJsonDepth = 200;              // the parser recurses: deeper costs stack
inline constexpr std::size_t kKeptOfTooLarge = 4096;        // first bytes of a result that was refused [E9]
inline constexpr int kStepsPerRun = 100'000;                // a replay loads them all: about 60 MB
inline constexpr std::size_t kNameBytes = 128;              // branch and name [V3]
inline constexpr std::size_t kKeyBytes = 512;               // key [V3]
inline constexpr std::size_t kAlternatives = 16;            // of a first-of: more than a person reads at once [A10]
inline constexpr int kUnreadSignals = 10'000;               // a sender in a loop must not fill the disk [A9]

// Time, in milliseconds.
inline constexpr std::int64_t kClockFollowMs = 60'000;      // C6: more than NTP slews, less than a wrong time zone
inline constexpr std::int64_t kClockAgreeMs = 1'000;        // C6: NTP slews 30 ms a minute at most; a second is no accident
inline constexpr std::int64_t kInlineSleepMs = 1'000;       // A5: shorter than what a suspension and a claim cost a program
inline constexpr std::int64_t kRiderMs = 100;               // J1: an intent that rides is committed at the latest then
inline constexpr std::int64_t kRemoteLeaseMs = 30'000;      // K1
inline constexpr std::int64_t kLeastRemoteLeaseMs = 1'000;  // less and a busy worker loses its run (guess)
inline constexpr std::int64_t kLateLeaseMs = 5'000;         // K3: a lease that the sweep meets so late: we were stalled
inline constexpr std::int64_t kClaimLookMs = 1'000;         // a worker's long poll: whether it hung up
inline constexpr std::size_t kClaimNames = 100;             // workflows or functions that one worker asks for (guess)
inline constexpr std::int64_t kAbandonMs = 30'000;          // K3, X1: an attempt that does not end when told
inline constexpr std::int64_t kShutdownGraceMs = 30'000;    // K5
inline constexpr std::int64_t kPreviousAliveMs = 30'000;    // K7: the reason previous_attempt_alive stands on the run
inline constexpr std::int64_t kSettleAfterMs = 10'000;      // K7: a request of a native effect may still be on its way
inline constexpr std::int64_t kProbeMs = 30'000;            // programs.md: a probe that takes longer cannot tell
inline constexpr std::int64_t kSweepIntervalMs = 5'000;     // W1
inline constexpr std::int64_t kOrphanScanMs = 60'000;       // W4
inline constexpr std::int64_t kStalledMs = 300'000;         // W5
inline constexpr std::int64_t kCheckMs = 600'000;           // W5, W11
inline constexpr std::int64_t kRedriveFirstMs = 30'000;     // W5
inline constexpr std::int64_t kRedriveMaxMs = 600'000;      // W5
inline constexpr std::int64_t kTaskLeaseMs = 30'000;        // K8
inline constexpr std::int64_t kTaskRelayMs = 30'000;        // W6: an offer that nobody took up
inline constexpr std::int64_t kDueAgainMs = 5'000;          // something is due that nobody may claim: look again
inline constexpr std::int64_t kDiskProbeMs = 1'000;         // C4
inline constexpr std::int64_t kDiskLogMs = 10'000;          // C4: one line in 10 s
inline constexpr std::int64_t kBusyMs = 1'500;              // a shell that holds the write lock: then 503
inline constexpr std::int64_t kLingerMs = 1'000;            // suspension of a program (programs.md)
inline constexpr std::int64_t kDrainMs = 200;               // a grandchild that keeps stdout open (packages.md)
inline constexpr std::int64_t kCancelGraceMs = 10'000;      // V2: TERM to KILL of a step's command at a cancel
inline constexpr std::int64_t kProgramShutdownMs = 25'000;  // steps of programs that execute at a shutdown; systemd waits 90 s
inline constexpr std::int64_t kGuardGraceMs = 60'000;       // W7: a guard ends its tree by itself in milliseconds; this one is stopped
inline constexpr std::int64_t kGuardSoonMs = 3'000;
inline constexpr std::int64_t kGuardLookMs = 50;            // a restart waits for guards of the dead agent: not for a sweep interval
inline constexpr std::int64_t kUnclaimedSpawnBackoffMs = 5'000;  // E8: guess

// Counts.
inline constexpr int kCrashLoopAlone = 3;                   // K6: from here on claimed alone among themselves
inline constexpr int kCrashLoop = 10;                       // K6
inline constexpr int kStepsAtOnce = 8;                      // P1
inline constexpr int kStepsInLine = 64;                     // verbs of an attempt that wait for one of these: as many as `bide each` has
inline constexpr std::size_t kWaitsAtOnce = 256;            // of an attempt: each costs a connection and a thread; a person reads none of so many
inline constexpr int kSweepPage = 100;                      // W4, O4
inline constexpr int kSweepBudget = 2'000;                  // W4, O4
inline constexpr int kCheckBudget = 10'000;                 // live runs that a pass looks at (about 50 ms)
inline constexpr int kClaimsAtOnce = 64;                    // a claim transaction stays under about 5 ms (guess)
inline constexpr std::size_t kOfferedTasks = 10'000;        // in memory; beyond it the sweep offers them again (guess)
inline constexpr std::size_t kQueueJobs = 8'192;            // writer's queue: beyond it a caller waits (guess)
inline constexpr std::size_t kBatchJobs = 1'024;            // jobs a commit: keeps a batch under about 20 ms (guess)
inline constexpr int kWakeGroup = 8;                        // callers of a batch that one wake-up of the writer reaches

// The store's file (db/).
inline constexpr std::int64_t kCheckpointBytes = 8 << 20;   // WAL that has grown by this is moved over: p99.9 (packages.md)
inline constexpr std::int64_t kTruncateBytes = 64 << 20;    // a WAL that readers kept from starting anew
inline constexpr std::int64_t kIdleCheckpointMs = 1'000;    // nothing queued for so long: empty the WAL, then sleep
inline constexpr std::size_t kReserveBytes = 1 << 20;       // C4: hundreds of decisions of a few pages
inline constexpr std::int64_t kClockMarkMs = 60'000;        // C6: the mark is written at most so often

// Deliveries.
inline constexpr std::int64_t kDeliveryGraceMs = 30'000;    // O2: a new row is tried at once; due by itself only then
inline constexpr std::int64_t kDeliveryFirstMs = 5'000;     // O5
inline constexpr std::int64_t kDeliveryMaxMs = 600'000;     // O5
inline constexpr int kDeliveryTries = 10;                   // O5
inline constexpr std::int64_t kParkAfterMs = 1'835'000;     // O5: what ten tries take
inline constexpr std::int64_t kRetryAfterMaxMs = 3'600'000; // O5
inline constexpr std::int64_t kTogetherMs = 1'000;          // O5: rows of a lane that fail within this fail together
inline constexpr std::int64_t kTogetherApartMs = 200;       // F07: a destination that comes back meets 5 old rows a second …
inline constexpr std::int64_t kTogetherMostMs = 60'000;     // … until so many failed that they would wait for minutes
inline constexpr std::int64_t kDeliveryMs = 10'000;         // O4: one try, from the resolver to the last byte of the answer
inline constexpr int kLanesAtOnce = 8;                      // O4
inline constexpr int kSlowLanesAtOnce = 6;                  // of these for destinations that hang: the others keep two
inline constexpr std::int64_t kSlowMs = 1'000;              // a try that took longer: its lane counts as slow (guess)
inline constexpr std::size_t kLaneRows = 100;               // O4: rows of a lane in hand
inline constexpr std::size_t kFreshRows = 4'096;            // ids that wait for their try after the COMMIT: 32 KB
inline constexpr int kScanBudget = 20'000;                  // due rows that a pass looks at: about 20 ms
inline constexpr std::int64_t kNoNetworkMs = 5'000;         // O5: when a row is due again that met no network
inline constexpr std::int64_t kDeliveryCloseMs = 4'000;     // F06: a stop waits so long for tries that are under way
inline constexpr std::size_t kAnswerBytes = 64 << 10;       // of a receiver's answer: only its head counts
inline constexpr int kStuckResolutions = 16;                // names that a dead resolver still works on
inline constexpr std::int64_t kLostWakeMs = 60'000;         // O7
inline constexpr std::int64_t kRotationMs = 24 * 3'600'000; // an old webhook secret signs beside the new one for a day
inline constexpr std::int64_t kDecisionLinkMs = 24 * 3'600'000;  // a link in a notice decides for a day: a mail is read by then
inline constexpr std::int64_t kRemindBeforeMs = 3'600'000;  // before a deadline, or at half of a shorter time
inline constexpr std::int64_t kRemindAfterMs = 24 * 3'600'000;   // what has no deadline is overdue for somebody
inline constexpr int kWebhooks = 100;                       // each event is compared with all of them (guess)

// Retention [W9].
inline constexpr std::int64_t kKeepRunsMs = 30LL * 24 * 3'600'000;
inline constexpr std::int64_t kKeepControlMs = 3'600'000;
inline constexpr std::int64_t kKeepCommandsMs = 24 * 3'600'000;   // M1: the least; a caller may come again that late
inline constexpr std::int64_t kKeepDeliveriesMs = 7LL * 24 * 3'600'000;  // a run whose deliveries are not out stays longer by this
inline constexpr std::int64_t kLeastKeepRunsMs = 60'000;    // less and a caller may not see how its run ended
inline constexpr std::int64_t kLeastMaxDbBytes = 16 << 20;  // below it there is little that deleting could give
inline constexpr int kRetentionBatch = 500;                 // rows a transaction
inline constexpr int kRetentionBatchLeast = 25;
inline constexpr std::int64_t kRetentionSlowMs = 15;        // a commit that took longer: the next batch is half of it
inline constexpr int kRetentionRows = 5'000;                // a pass: others' duties wait for its end, about 0.3 s
inline constexpr int kRetentionEntries = 5'000;             // files and folders that a pass removes
inline constexpr std::int64_t kRetentionAgainMs = 100;      // more is to go: this long after a pass the next begins
inline constexpr std::int64_t kRetentionSoonMs = 60'000;    // what becomes due by itself goes together, once a minute
inline constexpr int kRunsAtOnce = 10;                      // deleted for max_db_bytes before the size is asked again
inline constexpr int kSpaceStepPages = 64;                  // given back in a transaction: 256 KB that move at most
inline constexpr int kSpaceSlackPages = 256;                // free pages that stay for what comes next …
inline constexpr int kSpaceSlackPart = 10;                  // … or this part of the file: growing again costs more
inline constexpr std::int64_t kOverMaxLogMs = 3'600'000;    // max_db_bytes cannot be kept: said once an hour
inline constexpr std::int64_t kVersionsMs = 3'600'000;      // versions are looked through, and after runs went
inline constexpr std::int64_t kFoundMs = 600'000;           // a version that was found for a start is not deleted so soon

// Environments [W8].
inline constexpr std::int64_t kEnvironmentStalledMs = 60'000;  // a change that nobody goes on with is taken up again
inline constexpr std::int64_t kLeastDeleteAfterMs = 60'000; // an environment that is unused for less is in use
inline constexpr std::int64_t kEnvironmentUseMs = 60'000;   // its last use is written down at most so often
inline constexpr int kEnvironments = 1'000;                 // a person made each of them (guess)
inline constexpr int kSeedEntries = 2'000;                  // copied in one go; then a mark that the copier goes on

// HTTP front (packages.md).
inline constexpr std::size_t kHeadBytes = 16 * 1024;
inline constexpr std::size_t kHeadFields = 64;
inline constexpr std::int64_t kHeadMs = 5'000;
inline constexpr std::int64_t kBodyMs = 30'000;
inline constexpr std::int64_t kWriteMs = 30'000;            // a whole answer: as long as a body may take
inline constexpr std::int64_t kIdleMs = 60'000;             // keep-alive between requests: a person reads a page (guess)
inline constexpr std::int64_t kCloseLingerMs = 1'000;       // after a refusal: a round trip, so that the client reads it
inline constexpr int kListenBacklog = 512;
inline constexpr std::size_t kConnections = 2'048;          // a listener: idle ones cost 1 KB; descriptors are the bound
inline constexpr int kRequestThreads = 64;                  // short requests (guess)
inline constexpr std::size_t kQueuedRequests = 1'024;       // waiting for one of those threads: 0.1 s of commits (guess)
inline constexpr std::size_t kEnvelopeBytes = 64 << 10;     // what stands around a document in a request's body
inline constexpr std::size_t kVerbBytes = 8 << 20;          // a verb's body: 1 MiB of output, each byte an escape of six
inline constexpr std::size_t kBodiesBytes = 64 << 20;       // of all requests of a listener together, as they come: 64 of the largest documents
inline constexpr std::size_t kOpenBodyBytes = 4 << 10;      // without a credential: a sign-in code
inline constexpr std::size_t kPageBytes = 4 << 20;          // a page ends when it has so much: four of the largest documents
inline constexpr std::size_t kDescriptors = 65'536;          // the soft limit is raised to this: connections, attempts, and room to spare
inline constexpr std::size_t kRefusedAtOnce = 32;           // a listener: connections beyond its bound that are told so; more are closed
inline constexpr std::size_t kDescriptorReserve = 128;      // for all but connections and attempts: file, WAL, readers, deliveries, /proc
inline constexpr std::size_t kDescriptorsOfAttempt = 6;     // guard's pipes, pidfd, bell, and what a spawn needs for a moment
inline constexpr std::int64_t kQuickLateMs = 2;             // a read that waits behind others for so long gets a thread (guess)
inline constexpr int kHealthThreads = 2;                    // health answers when the rest is full
inline constexpr int kWaitThreads = 2'048;                  // verbs that wait: as many as have a connection; 24 KB of stack touched each
inline constexpr int kActThreads = 512;                     // verbs that hold a slot: 64 workers, 8 steps each; never behind those that wait for one
inline constexpr int kPollThreads = 256;                    // readers' long polls: never in the way of a verb (guess)
inline constexpr std::int64_t kPreferWaitMs = 60'000;       // longest `Prefer: wait`
inline constexpr std::int64_t kCodeMs = 60'000;             // a sign-in code of `bide ui`: a click away
inline constexpr std::int64_t kSessionMs = 12 * 3'600'000;  // a working day
inline constexpr int kPageDefault = 50;
inline constexpr int kPageMax = 200;

// Retries of native steps [E2].
inline constexpr std::int64_t kRetryFirstMs = 1'000;
inline constexpr std::int64_t kRetryMaxMs = 300'000;
inline constexpr int kNativeRetries = 5;

// Program trees (programs.md).
inline constexpr std::size_t kTreeBytes = 10 << 20;
inline constexpr std::size_t kTreeFiles = 1'000;
inline constexpr int kTreeReadTries = 3;
inline constexpr int kEndLookMs = 5;                        // between two passes over what is being ended; doubled each time …
inline constexpr int kEndLookMostMs = 200;                  // … up to this: a pass reads all of /proc, and some resist for hours
inline constexpr int kDeepestFolder = 128;                  // open at once while a tree of folders is removed: a descriptor each

// Logs of programs.
inline constexpr std::size_t kLogMarks = 30'000;            // attempts of a run that are told apart: a megabyte of marks

// Secrets [D4].
inline constexpr std::size_t kSecretLeast = 6;              // a shorter value is found in texts that have nothing to do with it
inline constexpr std::size_t kSecretBytes = 64 << 10;       // a key with its chain of certificates has some 10 KB
inline constexpr std::int64_t kSecretStepMs = 60'000;       // a step that gives one failed after its retries: the next try
inline constexpr std::int64_t kSecretsFreshMs = 1'000;      // a value that was put there is looked for a second later

// Configuration and command line.
inline constexpr int kWorkersMost = 1'024;                  // a thread each: 24 MB of stacks touched
inline constexpr std::int64_t kClientConnectMs = 5'000;     // an agent on this box answers in milliseconds
inline constexpr std::int64_t kClientReadMs = 60'000;       // a sweep over a large file
inline constexpr std::int64_t kClientPollMs = 20'000;       // one long poll: below what proxies cut (guess)
inline constexpr std::int64_t kClientRestartMs = 60'000;    // a watcher outlives a restart of the agent
inline constexpr std::int64_t kClientAgainMs = 200;         // between two tries to reach it
inline constexpr std::size_t kClientAnswerBytes = 64 << 20; // a page of 200 steps with large results
// clang-format on

}  // namespace bide::limits
