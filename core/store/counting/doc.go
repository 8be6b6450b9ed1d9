// Package counting is how limits count. It is for authors of stores: everybody else needs package store, or core
// alone.
//
// A store keeps three kinds of records: a [Bucket] for each key and rule, a [Penalty] or a [ManualBlock] where
// the key is to be blocked, and a [Mark] for each operation that is charged once. What a bucket's numbers mean
// is the business of the algorithm that wrote them; a store keeps them with the bucket's [Form], and never reads
// them.
//
// There are two ways to write a [store.Store]:
//
//   - A store that can read, change and write back as one step, such as a map behind a mutex or a row in a
//     transaction, counts with this package. That takes about a hundred lines: see the Example. memstore and
//     pgstore work like this.
//   - A store that counts on its server, as redisstore does, returns a [Reading] of the bucket. [Reading.Result]
//     makes the answer of it. If it keeps deadlines by itself, [Deadline] spares it a timer for each call.
//
// The first way, for each call, in this order:
//
//  1. Refuse calls that no store can answer: [ValidChecks], for Restore [ValidRestore]; for Reset, Block and Unblock
//     [ValidKeys], and for Block [store.ValidBlockTime] as well. All else relies on it.
//  2. Begin the step, and read the store's clock once, so that the whole call is decided at one instant.
//  3. Read a [State] for each check.
//  4. Call the function for the method: [Decide] for Take and Peek, [Charge], [Refund], [Renew], [Reset], [BlockKeys],
//     [UnblockKeys] or [Restore]. Each changes the states in place, all of them or none.
//  5. Write back the records that have changed, as the states say, and end the step.
//  6. After Decide, call [Answer] for the results. The other functions have set them.
//
// Times are microseconds since the epoch, costs and what is left are units, and what a bucket counts with are the
// [store.Integers] of its rule. All of these stay below 2^53: a store may keep them as float64. No fraction is
// rounded on the way: a rate that is not a whole number of units per tick is carried as a fraction.
//
// What holds whatever the order of calls, and however clocks move:
//
//   - A denied check charges nothing, and a bucket never holds more than its burst, but for [Charge] and [Renew],
//     which can bring it to twice that.
//   - A record that has expired means the same as none, so a store can drop it at any time after that, but
//     had better keep buckets until [Bucket.KeptUntil].
//   - A clock that is set back mints no units, and locks nobody out for longer than the present rule could.
//   - A limit may change while buckets exist: a bucket of another Form is converted when it is opened, and what was
//     used stays used. If it counts more than the new rule holds, it stays as it is until enough of it has
//     drained.
//
// What a calendar limit has used can be kept in a book outside the store, on which a business
// bills. The book is a wrapper of the store, and the store decides, as for any limit. Beside what
// an account has used, the store counts the changes, so that the book can write down absolute
// states in any order. A store that has lost an account knows that it has, and admits nothing
// before the book has told what was used: see [LedgerOf] and [Restorer].
//
// Each algorithm is one file of this package. How its rule becomes integers is a case in package store.
package counting
