package faults_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

var aclLine = regexp.MustCompile(`(?m)^ACL SETUSER weblimit on >secret (.*)$`)

// documented returns the rules of the ACL line in docs/run/redis.md.
func documented(t *testing.T) []string {
	t.Helper()
	text := must.Get(os.ReadFile("../../../docs/run/redis.md"))(t)
	found := aclLine.FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("docs/run/redis.md has %d ACL lines, want one", len(found))
	}
	return strings.Fields(found[0][1])
}

// privileged returns a server with a user that has the documented permissions, and a
// client logged in as that user.
func privileged(t *testing.T) (*redistest.Server, *redis.Client) {
	t.Helper()
	s := redistest.Start(t)
	s.User(t, "weblimit", documented(t)...)
	return s, s.ClientAs(t, "weblimit")
}

// The documented rules are enough: all that the store does works, and Redis refuses
// none of it silently. core/redisstore runs the store suite under these rules.
func TestTheDocumentedRulesAreEnough(t *testing.T) {
	t.Parallel()
	redistest.Since(t, 6, 2, "channels in ACLs")
	s := redistest.Start(t)
	s.User(t, "weblimit", append(documented(t), "resetchannels", "&weblimit:*", "+publish", "+subscribe")...) // with what is optional
	store := redisstore.New(s.ClientAs(t, "weblimit"))
	heard := listen(store)
	l := newPatient(t, store, atMost(3, "api").OnOutage(core.Deny))
	for n, want := range []core.Reason{core.ReasonWithinLimit, core.ReasonWithinLimit, core.ReasonWithinLimit, core.ReasonLimitExceeded} {
		if d := l.AllowKey(t.Context(), "k", 1); d.Reason != want {
			t.Errorf("decision %d: %v, %v; want %v", n+1, d.Reason, d.Err, want)
		}
	}
	check.OK(t, l.Reset(t.Context(), "k"))
	check.Equal(t, "left after a reset", remaining(t, l, "k"), 3)
	if heard.String() != "none" {
		t.Errorf("events: %v", heard)
	}
	// go-redis refuses to read entries with fields that are newer than it.
	entries := must.Get(s.Client(t).Do(t.Context(), "acl", "log", 100).Slice())(t)
	for _, e := range entries {
		entry, ok := e.(map[any]any) // RESP3
		if !ok {
			t.Fatalf("an entry of ACL LOG: %v", e)
		}
		if object := entry["object"]; object != "client|setinfo" && object != "client" && object != "info" { // what go-redis and Inspect try; "client" before Redis 7.0
			t.Errorf("refused: %v", entry)
		}
	}
}

// Redis refuses every command that is not documented, and the documented ones on
// other keys.
func TestNothingElseIsPermitted(t *testing.T) {
	t.Parallel()
	s, client := privileged(t)
	permitted := map[string]bool{"hello": true, "auth": true, "quit": true, "reset": true} // permitted to every user
	for _, rule := range documented(t) {
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			permitted[command] = true
		}
	}
	reply := must.Get(s.Client(t).Do(t.Context(), "command").Slice())(t)
	refused := 0
	for name, arity := range commands(reply) {
		if permitted[name] {
			continue
		}
		args := make([]any, 0, 8)
		for word := range strings.SplitSeq(name, "|") {
			args = append(args, word)
		}
		for len(args) < max(arity, -arity) {
			args = append(args, "1")
		}
		// EXEC wraps the word; DEBUG and MODULE are refused before, whoever asks.
		err := client.Do(t.Context(), args...).Err()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "command not allowed") {
			t.Errorf("%v: %v, want NOPERM", args, err)
		}
		refused++
	}
	figure(t, "commands permitted", len(permitted)-4)
	figure(t, "commands refused", refused)
	if refused < 100 {
		t.Errorf("only %d commands were tried", refused)
	}
	const script = "return redis.call('GET', KEYS[1])"
	check.Is(t, "a key under the prefix", client.Eval(t.Context(), script, []string{redisstore.DefaultPrefix + "{k}"}).Err(), redis.Nil)
	for _, key := range []string{"other", "weblimit", "x" + redisstore.DefaultPrefix + "{k}"} {
		for what, err := range map[string]error{
			"EVAL": client.Eval(t.Context(), script, []string{key}).Err(),
			"GET":  client.Get(t.Context(), key).Err(),
			"DEL":  client.Del(t.Context(), key).Err(),
		} {
			if !redis.HasErrorPrefix(err, "NOPERM") {
				t.Errorf("%s of %s: %v, want NOPERM", what, key, err)
			}
		}
	}
}

// commands reads the reply to COMMAND: the arity of each command that has no
// subcommands, and of each subcommand.
func commands(reply []any) map[string]int {
	arities := make(map[string]int)
	for _, entry := range reply {
		fields, ok := entry.([]any)
		if !ok {
			continue
		}
		var subcommands []any
		if len(fields) > 9 {
			subcommands, _ = fields[9].([]any)
		}
		if len(subcommands) > 0 {
			for name, arity := range commands(subcommands) {
				arities[name] = arity
			}
			continue
		}
		name, _ := fields[0].(string)
		arity, _ := fields[1].(int64)
		arities[name] = int(arity)
	}
	return arities
}

// Without permission for INFO there is no warning about eviction. All else works.
func TestInfoIsNotNeeded(t *testing.T) {
	t.Parallel()
	_, client := privileged(t)
	store := redisstore.New(client)
	problem, err := store.Registry().Server().Eviction(t.Context())
	if err == nil || problem != "" || !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("Eviction: %q, %v, want NOPERM", problem, err)
	}
	l := newPatient(t, store, atMost(3, "api").OnOutage(core.Deny))
	if d := l.AllowKey(t.Context(), "k", 1); d.Reason != core.ReasonWithinLimit {
		t.Errorf("%v, %v", d.Reason, d.Err)
	}
}
