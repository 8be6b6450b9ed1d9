// Package store is the contract between limiters and stores, and the arithmetic of limits.
// It is for authors of stores. Users of limits need package core, and of this package at
// most the classes of errors.
//
// A [Rule] is the name and the [Numbers] of a limit, checked by [NewRule]. A store is
// asked to decide a [Check] under a rule, and answers with a [Result].
//
// There are two ways to write a [Store]:
//
//   - A store that can read, change and write back as one step, such as a map behind a
//     mutex or a row in a transaction, keeps a [Bucket] for each key and rule, a [Penalty]
//     where the rule has one, and a [Mark] for each operation that is charged once. It
//     reads them into a [State] for each check, calls [Decide], [Charge] or another function
//     that State names, and writes back what has changed. That takes about a hundred lines:
//     see the Example. memstore works like this.
//   - A store that counts on its server, as redisstore does, returns a [Reading] of the
//     bucket. [Rule.Result] makes the answer of it.
//
// What a [Calendar] limit has used can be kept in a book outside the store, on which a business
// bills. The book is a wrapper of the store, and the store decides, as for any limit. Beside what
// an account has used, the store counts the changes, so that the book can write down absolute
// states in any order. A store that has lost an account knows that it has, and admits nothing
// before the book has told what was used: see [Ledger] and [Restorer].
//
// Each algorithm is one file of this package. A store embeds [Base], which provides its
// [Registry]: what the limiters on one store share. One that counts in memory calls
// [Registry.SetInProcess].
package store
