// Package regionsim simulates one limit over several regions, and compares five designs on the same requests: shares that
// are fixed, counts that regions exchange, units that they lease from home, and one exact limiter that everybody asks at
// once. The leased design is the product's own: package regions over stores in memory. Only the time, the load and the
// links to home are simulated.
//
// A simulation runs in a bubble of testing/synctest. A [Config] determines its outcomes: what happens at the same
// moment either does not depend on its order, or is spread over some nanoseconds that depend on the seed alone.
package regionsim
