package redisstore

import "time"

// patience is how long the store's own calls take at most, where no request has set a deadline. Tests
// that are not about it set others: a server that shares its processor with a compiler can stand still
// for longer.
type patience struct {
	unbounded  time.Duration // a round trip if no request set a deadline
	background time.Duration // a call that gives charges back or removes holds; nobody waits for it
	exchange   time.Duration // a round trip of the exchange if its caller set no deadline
	slots      time.Duration // until there is a map of a Cluster's slots
	idle       time.Duration // between probes of a node that nobody asks for
	silence    time.Duration // after which the listener tries its connection, and after which it then gives it up
}

var usualPatience = patience{
	unbounded: 3 * time.Second, background: time.Second, exchange: time.Second, slots: 2 * time.Second, idle: time.Minute, silence: 5 * time.Second,
}
