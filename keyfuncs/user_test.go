package keyfuncs_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

type (
	userName string
	userID   int32
	badge    uint8
	uuid     [16]byte
	account  struct{ name string }
	level    int
)

func (u uuid) String() string     { return hex.EncodeToString(u[:]) }
func (a *account) String() string { return a.name }
func (l level) String() string    { return "level-" + strings.Repeat("i", int(l)) }

func TestUser(t *testing.T) {
	t.Parallel()
	var nobody *account
	var nilUUID *uuid
	for _, tt := range []struct {
		name string
		id   any
		want string
	}{
		{"a string", "alice", "user:alice"},
		{"an empty string is missing", "", ""},
		{"a long string is hashed", strings.Repeat("a", 65), hashed("user", strings.Repeat("a", 65))},
		{"a string type", userName("alice"), "user:alice"},
		{"an empty string type is missing", userName(""), ""},
		{"an int", 42, "user:42"},
		{"zero", 0, "user:0"},
		{"the smallest int64", int64(math.MinInt64), "user:-9223372036854775808"},
		{"an int8", int8(-1), "user:-1"},
		{"an integer type", userID(7), "user:7"},
		{"the largest uint64", uint64(math.MaxUint64), "user:18446744073709551615"},
		{"an unsigned type", badge(255), "user:255"},
		{"a UUID", uuid{0: 0xab, 15: 1}, "user:ab000000000000000000000000000001"},
		{"a pointer to a UUID", &uuid{}, "user:00000000000000000000000000000000"},
		{"an integer type with a String method", level(2), "user:level-ii"},
		{"a pointer with a String method", &account{"alice"}, "user:alice"},
		{"an empty String is missing", &account{}, ""},
		{"a nil pointer with a String method is missing", nobody, ""},
		{"a nil pointer whose String method has a value receiver is missing", nilUUID, ""},
		{"nil is missing", nil, ""},
		{"a float is missing", 1.5, ""},
		{"a bool is missing", true, ""},
		{"bytes are missing", []byte("alice"), ""},
		{"a struct is missing", struct{ id int }{1}, ""},
		{"a pointer to a string is missing", new(string), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantKey(t, keyfuncs.User("userID"), withUser(tt.id), tt.want)
		})
	}
}

func TestUserIsFoundByItsContextKey(t *testing.T) {
	t.Parallel()
	type contextKey struct{}
	r := &request{values: map[any]any{contextKey{}: "alice", "userID": "bob"}}
	wantKey(t, keyfuncs.User(contextKey{}), r, "user:alice")
	wantKey(t, keyfuncs.User("userID"), r, "user:bob")
	wantKey(t, keyfuncs.User("other"), r, "")

	wantErr(t, keyfuncs.User(nil), "weblimit: keyfuncs.User: the context key is nil")
	wantErr(t, keyfuncs.User([]string{"a"}), "weblimit: keyfuncs.User: a []string can't be a context key")
	wantErr(t, keyfuncs.User([1]any{func() {}}), "weblimit: keyfuncs.User: a [1]interface {} can't be a context key")
}
