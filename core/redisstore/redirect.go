package redisstore

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redirection is a Cluster node's answer that another one has the slot: for good
// (MOVED), or for a key that has been moved already while others are still to be
// (ASK). The node has not run the call.
type redirection struct {
	reply error
	addr  string
	ask   bool
}

func (r redirection) Error() string { return r.reply.Error() }
func (r redirection) Unwrap() error { return r.reply }

// redirectionOf reads an error as a redirection.
func redirectionOf(err error) (redirection, bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return redirection{}, false
	}
	fields := strings.Fields(reply.Error())
	if len(fields) != 3 || fields[0] != "MOVED" && fields[0] != "ASK" {
		return redirection{}, false
	}
	return redirection{reply: err, addr: fields[2], ask: fields[0] == "ASK"}, true
}

// from fills in a host that the node left out: it means its own.
func (r redirection) from(n *node) redirection {
	if host, port, err := net.SplitHostPort(r.addr); err == nil && host == "" {
		if own, _, err := net.SplitHostPort(n.name); err == nil {
			r.addr = net.JoinHostPort(own, port)
		}
	}
	return r
}
