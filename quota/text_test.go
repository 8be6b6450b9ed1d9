package quota

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// Any bytes can be a key: the ledger keeps them apart, and has them as text.
func TestKeysAsText(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		keys := [][]byte{
			[]byte("tenant:acme"), []byte("tenant:a\x00b"), []byte("tenant:\xff\xfe"), []byte(`\x00`), []byte("\x00"), []byte(`\h1`), []byte(" "),
			[]byte("tenant:ü\u202e"), []byte("'; DROP TABLE weblimit.account; --"), bytes.Repeat([]byte("a"), 512), bytes.Repeat([]byte("a"), 513), bytes.Repeat([]byte("a"), 100_000),
			bytes.Repeat([]byte{0}, 512), []byte("{}%s\n"),
		}
		m := fresh()
		b := bookOn(t, l, Config{Store: m})
		limiterOn(t, b.Store(), monthly(100))
		checks, results := planCheck(t, 1), make([]store.Result, 1)
		seen := make(map[string]bool)
		for i, key := range keys {
			checks[0].Key, checks[0].Cost = key, int64(i+1)
			if err := b.Store().Take(t.Context(), checks, results); err != nil || !results[0].Charged {
				t.Fatalf("%.40q: %+v, %v", key, results, err)
			}
			text := ledger.TextOf(key)
			if seen[text] || len(text) > 2*ledger.MaxKey+2 {
				t.Errorf("%.40q is %.80q", key, text)
			}
			seen[text] = true
			if back, known := ledger.KeyOf(text); known != (len(key) <= ledger.MaxKey) || known && !bytes.Equal(back, key) {
				t.Errorf("%.40q comes back as %.40q", key, back)
			}
		}
		mustFlushBook(t, b)
		for i, key := range keys {
			check.Equal(t, fmt.Sprintf("%.40q: units in the ledger", key), b.total(t, "plan", string(key)), int64(i+1))
		}
		sum, err := b.Reconcile(t.Context(), true, func(d Difference) error {
			if d.Cause != CauseUnknownKey || !strings.HasPrefix(d.Tenant, ledger.HashedKey) {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
		if err != nil || sum.Accounts != len(keys) || sum.Left != 2 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
}

func TestTextsComeBack(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		key := make([]byte, r.IntN(20))
		for i := range key {
			key[i] = []byte{'a', '\\', 'x', 'h', 0, 0xff, '0'}[r.IntN(7)]
		}
		if back, known := ledger.KeyOf(ledger.TextOf(key)); !known || !bytes.Equal(back, key) {
			t.Fatalf("%q comes back as %q", key, back)
		}
	}
}
