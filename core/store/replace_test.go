package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func declaration(t *testing.T, name string, quota int64) store.Declaration {
	t.Helper()
	rule := must.Get(store.NewRule(name, store.Numbers{Algorithm: store.TokenBucket, Quota: quota, Window: time.Minute}))(t)
	return store.Declaration{Rule: rule, Keys: "ip", Named: true}
}

func names(r *store.Registry) string {
	var all []string
	for _, d := range r.Declarations() {
		all = append(all, d.Rule.Name)
	}
	return strings.Join(all, " ")
}

func TestReplaceGivesNamesFree(t *testing.T) {
	t.Parallel()
	r := new(store.Registry)
	a5, a6, b := declaration(t, "a", 5), declaration(t, "a", 6), declaration(t, "b", 1)
	step := func(what string, old, declarations []store.Declaration, want string, refused bool) {
		t.Helper()
		if err := r.Replace(old, declarations); (err != nil) != refused {
			t.Fatalf("%s: %v", what, err)
		}
		check.Equal(t, what+": the store", names(r), want)
	}
	all := func(d ...store.Declaration) []store.Declaration { return d }
	step("two are added", nil, all(a5, b), "a b", false)
	step("other numbers conflict", nil, all(a6), "a b", true)
	step("other numbers replace", all(a5), all(a6), "a b", false)
	step("one is shared", nil, all(b), "a b", false)
	step("a shared one stays for the other", all(b), nil, "a b", false)
	step("a shared one can't change", all(b, b), all(declaration(t, "b", 2), a5), "a b", true) // a is another's
	step("the last one goes", all(b), nil, "a", false)
	step("what is not there is no error", all(b, b), nil, "a", false)
	step("one twice, and different", all(a6), all(a5, a6), "a", true)
	if r.Declarations()[0].Rule.Quota != 6 {
		t.Error("a refused change has changed something")
	}
	must.OK(t, r.OnRegister(func(d store.Declaration) error {
		if d.Rule.Quota == 7 {
			return errors.New("no 7")
		}
		return nil
	}))
	step("a listener refuses", all(a6), all(declaration(t, "a", 7)), "a", true)
	step("all go", all(a6), nil, "", false)
}
