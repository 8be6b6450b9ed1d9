package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
)

// replies are the error codes that Redis begins its replies with.
var replies = map[string]core.ErrorClass{
	"READONLY":    core.ErrorReadOnly,
	"LOADING":     core.ErrorLoading,
	"MASTERDOWN":  core.ErrorMasterDown,
	"CLUSTERDOWN": core.ErrorClusterDown,
	"BUSY":        core.ErrorBusy,
	"OOM":         core.ErrorMemory,
	"MISCONF":     core.ErrorDisk,
	"NOREPLICAS":  core.ErrorDisk,
	"MOVED":       core.ErrorMoved,
	"ASK":         core.ErrorMoved,
	"TRYAGAIN":    core.ErrorTryAgain,
	"NOPERM":      core.ErrorPermission,
	"NOAUTH":      core.ErrorLogin,
	"WRONGPASS":   core.ErrorLogin,
	"WRONGTYPE":   core.ErrorType,
	"WEBLIMIT":    core.ErrorValue,
	"CROSSSLOT":   core.ErrorSlots,
}

// classOf names an error of go-redis or of Redis.
func classOf(err error) core.ErrorClass {
	var known *core.StoreError
	if errors.As(err, &known) {
		return known.Class
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return classOfReply(reply.Error())
	}
	var timeout net.Error
	switch {
	case errors.Is(err, redis.ErrClosed):
		return core.ErrorClosed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return core.ErrorTimeout
	case errors.As(err, &timeout) && timeout.Timeout():
		return core.ErrorTimeout
	case strings.Contains(err.Error(), "connection pool"): // go-redis exports neither of its two errors
		return core.ErrorOverload
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*net.OpError)):
		return core.ErrorConnection
	case errors.Is(err, net.ErrClosed), errors.As(err, new(syscall.Errno)): // such as reset by the peer
		return core.ErrorConnection
	}
	return core.ErrorUnknown
}

func classOfReply(text string) core.ErrorClass {
	code, rest, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	if class, ok := replies[code]; ok {
		return class
	}
	// Redis 5 and 6 put a script's own errors behind words of theirs.
	for code, class := range replies {
		if strings.Contains(rest, "-"+code+" ") {
			return class
		}
	}
	switch lower := strings.ToLower(rest); {
	case strings.Contains(lower, "max number of clients"):
		return core.ErrorOverload
	case strings.Contains(lower, "unknown command"), strings.Contains(lower, "unknown redis command"):
		return core.ErrorUnsupported
	case strings.Contains(lower, "invalid password"):
		return core.ErrorLogin
	case strings.Contains(lower, "user executing the script can't"), strings.Contains(lower, "acl failure in script"):
		return core.ErrorPermission // Redis has no code for it there
	case strings.Contains(lower, "user_script"):
		return core.ErrorValue // the script stumbles over nothing else
	}
	return core.ErrorUnknown
}

// keyless returns an error whose text holds no key, for it ends in logs. Servers and
// proxies quote what they were sent in some replies: "unknown command, with args
// beginning with", "can't access the key". Each key of a store has a brace, and what
// they say otherwise has none. The code stays.
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

// aboutKey reports whether an error is about the keys of a check, and says
// nothing of how its node fares.
func aboutKey(class core.ErrorClass) bool {
	switch class {
	case core.ErrorType, core.ErrorValue, core.ErrorSlots, core.ErrorMoved, core.ErrorTryAgain:
		return true
	}
	return false
}
