package redisstore

import (
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
)

func TestErrorsWithinAScriptHaveTheirClassInEveryVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]store.Class{
		// Redis 5
		"ERR Error running script (call to f_9e): @user_script:146: WRONGTYPE Operation against a key holding the wrong kind of value ":         ClassType,
		"ERR Error running script (call to f_9e): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.   ":   store.ClassReadOnly,
		"ERR Error running script (call to f_9e): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.   ": store.ClassMemory,
		"ERR Error running script (call to f_9e): @user_script:1: user_script:1: attempt to index a nil value ":                                 store.ClassValue,
		"ERR Error running script (call to f_9e): @user_script:146: @user_script: 146: Unknown Redis command called from Lua script ":           store.ClassUnsupported,
		"ERR Error running script (call to f_9e): @user_script:146: @user_script: 146: -NOAUTH Authentication required. ":                       store.ClassLogin,
		// Redis 6
		"ERR Error running script (call to f_9e): @user_script:146: @user_script: 146: The user executing the script can't run this command or subcommand": store.ClassPermission,
		// Redis 7 and Valkey
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 9e, on @user_script:146.":                    ClassType,
		"READONLY You can't write against a read only replica. script: 9e, on @user_script:1.":                                  store.ClassReadOnly,
		"ERR ACL failure in script: User weblimit has no permissions to run the 'get' command script: 9e, on @user_script:146.": store.ClassPermission,
		"ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: 9e, on @user_script:1.":          store.ClassValue,
	} {
		check.Equal(t, fmt.Sprintf("%q: class", text), classOfReply(text), want)
	}
}
