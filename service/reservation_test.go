package service

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	checks "github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// reserved is a reservation of one charge.
func reserved(t *testing.T, n store.Numbers, share *store.Share, standing store.Standing) *reservation {
	t.Helper()
	rule := must.Get(store.NewRule("a", n))(t)
	held := compose.Held{Rule: rule, Key: []byte("all"), Cost: 3, Estimate: true, Share: share}
	held.Result.Allowed, held.Result.Charged, held.Result.At, held.Result.Standing = true, true, 1234, standing
	return &reservation{at: time.UnixMicro(1), sealed: time.UnixMicro(2), charges: []chargesOf{{"p", []compose.Held{held}}}}
}

func TestReservationsComeBack(t *testing.T) {
	t.Parallel()
	plain := store.Numbers{Algorithm: store.TokenBucket, Quota: 10, Window: time.Hour}
	debt, divided := plain, plain
	debt.Debt, debt.HasDebt = 5, true
	divided.Divided, divided.Guaranteed = true, 4
	for name, tt := range map[string]struct {
		of     *reservation
		format byte
	}{
		"plain":     {reserved(t, plain, nil, store.Undivided), reservationFormat}, // which releases of before can read
		"debt":      {reserved(t, debt, nil, store.Undivided), debtFormat},
		"no client": {reserved(t, divided, nil, store.Undivided), shareFormat},
		"client":    {reserved(t, divided, &store.Share{Key: []byte("user:a"), Weight: 7, Minimum: 3, Maximum: 9}, store.OfMinimum), shareFormat},
		"user":      {reserved(t, divided, &store.Share{Key: []byte("user:a"), User: []byte("b"), Weight: 1}, store.UserOver), shareFormat},
	} {
		text := tt.of.append(nil)
		checks.Equal(t, name+": format", text[0], tt.format)
		var back reservation
		must.OK(t, back.read(text))
		got, want := &back.charges[0].held[0], &tt.of.charges[0].held[0]
		checks.All(t, name, []any{got.Rule, string(got.Key), got.Cost, got.Result.Standing, got.Result.At}, want.Rule, string(want.Key), want.Cost, want.Result.Standing, want.Result.At)
		checks.Equal(t, name+": has a share", got.Share != nil, want.Share != nil)
		if want.Share != nil {
			checks.All(t, name, []any{string(got.Share.Key), string(got.Share.User), got.Share.User == nil, got.Share.Weight, got.Share.Minimum, got.Share.Maximum},
				string(want.Share.Key), string(want.Share.User), want.Share.User == nil, want.Share.Weight, want.Share.Minimum, want.Share.Maximum)
		}
		for cut := range text { // a release with a mistake may have sealed it
			var part reservation
			if err := part.read(text[:cut]); err == nil {
				t.Errorf("%s: %d of %d bytes are read", name, cut, len(text))
			}
		}
	}
}
