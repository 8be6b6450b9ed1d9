package redisstore

// What the errors of go-redis and Redis mean: their class, and a text without keys.

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

// The classes of errors that only Redis raises, beside those of package store. The last two say that an operator has to
// act: Redis will never decide as it is set up.
const (
	ClassMasterDown  store.Class = "MASTERDOWN"  // a replica that has lost its master
	ClassClusterDown store.Class = "CLUSTERDOWN" // the slot has no master
	ClassMoved       store.Class = "MOVED"       // the slot moves faster than the client can follow
	ClassTryAgain    store.Class = "TRYAGAIN"    // the keys of one request are on two nodes while a slot moves
	ClassType        store.Class = "WRONGTYPE"   // a key holds a value of another application
	ClassSlots       store.Class = "CROSSSLOT"   // a client for a single server talks to a Cluster
)

// classOfCode are the codes that Redis's error replies begin with.
var classOfCode = map[string]store.Class{
	"READONLY":    store.ClassReadOnly,
	"LOADING":     store.ClassLoading,
	"MASTERDOWN":  ClassMasterDown,
	"CLUSTERDOWN": ClassClusterDown,
	"BUSY":        store.ClassBusy,
	"OOM":         store.ClassMemory,
	"MISCONF":     store.ClassDisk,
	"NOREPLICAS":  store.ClassDisk,
	"MOVED":       ClassMoved,
	"ASK":         ClassMoved,
	"TRYAGAIN":    ClassTryAgain,
	"NOPERM":      store.ClassPermission,
	"NOAUTH":      store.ClassLogin,
	"WRONGPASS":   store.ClassLogin,
	"WRONGTYPE":   ClassType,
	"WEBLIMIT":    store.ClassValue,
	"CROSSSLOT":   ClassSlots,
}

// classOf returns the class of an error of go-redis or Redis.
func classOf(err error) store.Class {
	var known *store.Error
	if errors.As(err, &known) {
		return known.Class
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return classOfReply(reply.Error())
	}
	var timeout net.Error
	switch { // errors of connections
	case errors.Is(err, redis.ErrClosed):
		return store.ClassClosed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return store.ClassTimeout
	case errors.As(err, &timeout) && timeout.Timeout():
		return store.ClassTimeout
	case strings.Contains(err.Error(), "connection pool"): // go-redis exports neither of its two errors
		return store.ClassOverload
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*net.OpError)):
		return store.ClassConnection
	case errors.Is(err, net.ErrClosed), errors.As(err, new(syscall.Errno)): // such as reset by the peer
		return store.ClassConnection
	}
	return store.ClassUnknown
}

// classOfReply returns the class of an error reply.
func classOfReply(text string) store.Class {
	code, rest, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	if class, ok := classOfCode[code]; ok {
		return class
	}
	// Redis 5 and 6 write the errors of commands within a script after a text of their own:
	// "@user_script: 12: -READONLY You can't", and Redis 5 also "@user_script:12: WRONGTYPE Operation".
	for code, class := range classOfCode {
		if strings.Contains(rest, ": -"+code+" ") || strings.Contains(rest, ": "+code+" ") {
			return class
		}
	}
	switch lower := strings.ToLower(rest); {
	case strings.Contains(lower, "max number of clients"):
		return store.ClassOverload
	case strings.Contains(lower, "unknown command"), strings.Contains(lower, "unknown redis command"):
		return store.ClassUnsupported
	case strings.Contains(lower, "invalid password"):
		return store.ClassLogin
	case strings.Contains(lower, "user executing the script can't"), strings.Contains(lower, "acl failure in script"):
		return store.ClassPermission // Redis has no code for it there
	case strings.Contains(lower, "user_script"):
		return store.ClassValue // nothing else makes the script fail
	}
	return store.ClassUnknown
}

// keyless returns an error whose text holds no key, since it ends up in logs. Some
// replies of servers and proxies quote the command: "unknown command, with args
// beginning with", "can't access the key". All keys of a store contain a brace, and no
// other text does. Redis's error code stays.
func keyless(err error) error {
	text := err.Error()
	if !strings.ContainsAny(text, "{}") {
		return err
	}
	const hidden = "(the rest is not shown, since it may hold a key)"
	var reply redis.Error
	if !errors.As(err, &reply) {
		return errors.New(hidden)
	}
	code, _, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	if strings.ContainsAny(code, "{}") {
		return replyError(hidden)
	}
	return replyError(code + " " + hidden)
}

// isAboutKey reports whether an error is about the keys of a check, and says nothing
// about the health of the node.
func isAboutKey(class store.Class) bool {
	switch class {
	case ClassType, store.ClassValue, ClassSlots, ClassMoved, ClassTryAgain:
		return true
	}
	return false
}
