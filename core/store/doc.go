// Package store is the contract between limiters and stores: what a store is asked, and what it answers.
// Users of limits need package core, and of this package at most events and the classes of errors.
// Authors of stores also need package counting, by which limits count.
//
// A [Rule] is the name and the [Numbers] of a limit, checked by [NewRule], with the [Integers] that are made
// of them. A store is asked to decide a [Check] under a rule, and answers with a [Result]. It embeds
// [Base], which provides its [Registry]: what the limiters on one store share. One that counts in
// memory calls [Registry.SetServer].
package store
