// Package advice says what a limiter notices of its own configuration that is likely wrong, each kind once per process.
// core makes an [Advisor] for each limiter and tells it what it sees: each of the first requests by [Advisor.Look], after
// its decision, and what only a decision can see, such as a cost that never fits, by a method for that. The package knows
// no limiter.
//
// A piece of advice is a code in codes.go, a file that is named after it, a case in [Advisor.Look] or a method that core calls, a
// test in advice_test.go, a line in the doc of core.Advice, and a section of docs/run/advice.md.
package advice
