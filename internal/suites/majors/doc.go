// Package majors only holds tests: the suites of the other frameworks with Echo 5 and Fiber 3, and what happens
// if an adapter meets the wrong major. It is a module of its own: Fiber 3 asks for a newer fasthttp, which reads
// requests in another way than the one that most users of Fiber 2 have.
package majors
