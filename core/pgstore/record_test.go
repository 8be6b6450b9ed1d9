package pgstore

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	const now = 1_800_000_000_000_000
	form := counting.Form{Algorithm: store.SlidingLog, Tick: 1, Unit: 60_000_000, Rate: 1}
	for _, r := range []record{
		{kind: bucketRecord, bucket: counting.Bucket{Expires: now + 1, X: 3, Y: 1 << 52, Form: form}},
		{kind: bucketRecord, bucket: counting.Bucket{Expires: now + 90*minute, X: 3, Form: form, Log: []counting.Entry{{At: now - 9, Units: 1}, {At: now, Units: 2}}}},
		{kind: penaltyRecord, key: []byte("key"), penalty: counting.Penalty{Strikes: 1, Window: 2, Until: now + 5, Level: 3, Expires: now + 6}},
		{kind: markRecord, mark: counting.Mark{At: now, Expires: now + 7, Repeats: 2}},
		{kind: divisionRecord, division: counting.Division{Expires: now + 1, Round: 2, Level: 3, Active: 4, Before: 5, Capped: 6, Over: 1 << 51, Clients: 8}},
		{kind: userRecord, part: counting.Part{Expires: now + 1, At: 2, Debt: 3, Least: 4, Most: 1 << 52, Round: 6, Large: true}},
		{kind: clientRecord, part: counting.Part{Expires: now + 1, Capped: true}},
	} {
		r.encode(now)
		if ends := r.newEnds * minute; ends <= now || ends > now+91*minute {
			t.Errorf("%+v can be removed at %d", r, ends)
		}
		got := record{kind: r.kind, row: row{state: r.newState}}
		if err := got.open(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		if len(got.bucket.Log) == 0 {
			got.bucket.Log = r.bucket.Log
		}
		if got.at != now || !reflect.DeepEqual(got.bucket, r.bucket) || got.penalty != r.penalty || got.mark != r.mark || got.division != r.division || got.part != r.part || !bytes.Equal(got.key, r.key) {
			t.Errorf("got %+v, want %+v", got, r)
		}
	}
}

func TestRecordsThatSayNothingAreEmpty(t *testing.T) {
	t.Parallel()
	const now = 1_800_000_000_000_000
	for _, k := range kinds {
		r := record{kind: k, key: []byte("key")}
		r.encode(now)
		if r.newState == nil || len(r.newState) != 0 || r.newEnds != now/minute+1 {
			t.Errorf("kind %d: state %v, ends %d", k, r.newState, r.newEnds)
		}
	}
}

// Any bytes are a record or an error, and a record that was read is one that can be decided on.
func FuzzRecord(f *testing.F) {
	f.Add(byte(bucketRecord-1), []byte{layout, 2, 8, 2, 2, 2, 4, 6, 8, 2, 2, 2})
	f.Add(byte(bucketRecord-1), []byte{layout, 2, byte(store.SlidingLog) * 2, 2, 2, 2, 0xff, 0x7f, 8, 2, 0}) // a log without entries
	f.Add(byte(penaltyRecord-1), []byte{layout, 2, 2, 2, 2, 2, 2, 'k'})
	f.Add(byte(markRecord-1), []byte{layout, 2, 2, 2, 2})
	f.Add(byte(divisionPart), []byte{layout, 2, 0xff, 0x7f, 2, 2, 2, 2, 2, 2, 2})
	f.Add(byte(usersPart), []byte{layout, 2, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0})
	f.Add(byte(clientPart), []byte{layout, 2, 0xff, 0x7f, 2, 2, 2, 2, 2, 6})
	f.Fuzz(func(t *testing.T, k byte, state []byte) {
		r := record{kind: kinds[k%recordParts], row: row{state: state}}
		if err := r.open(); err != nil {
			if !reflect.DeepEqual(r, record{kind: r.kind, row: row{state: state}}) {
				t.Errorf("after %v the record is %+v", err, r)
			}
			return
		}
		if r.kind == bucketRecord && len(state) > 0 && state[0] == layout && !known(r.bucket.Form) { // a block by hand can be there without
			t.Errorf("a bucket of the form %+v", r.bucket.Form)
		}
		for _, algorithm := range []store.Algorithm{store.TokenBucket, store.SlidingWindow, store.SlidingLog} {
			n := store.Numbers{Algorithm: algorithm, Quota: 5, Window: 1e9, Once: 1e9, Block: store.Block{After: 1, Within: 1e9, For: 1e9}}
			check := store.Check{Key: []byte("k"), Cost: 1, Once: []byte("o")}
			if algorithm == store.TokenBucket && (r.kind == bucketRecord || r.kind >= divisionRecord) {
				n.Divided, n.Guaranteed, n.Block = true, 2, store.Block{}
				check.Share = &store.Share{Key: []byte("client"), User: []byte("user"), Weight: 3, Minimum: 2, Maximum: 4}
			}
			rule := must.Get(store.NewRule("r", n))(t)
			check.Rule = &rule
			j := newJob(take, []store.Check{check}, make([]store.Result, 1), 0)
			g := &group{jobs: []*job{j}, records: map[string]*record{}}
			for part, id := range j.parts[0] {
				g.records[id] = &record{kind: kinds[part]}
				if kinds[part] == r.kind {
					g.records[id].state = state
				}
			}
			if _, err := g.decide(1000, 1000); err != nil && !errors.Is(err, errLayout) {
				t.Errorf("%v: %v", algorithm, err)
			}
		}
	})
}

func TestIDsAreApart(t *testing.T) {
	t.Parallel()
	rule := func(name string) *store.Rule {
		r := must.Get(store.NewRule(name, store.Numbers{Algorithm: store.FixedWindow, Quota: 1, Window: 1e9, Once: 1e9}))(t)
		return &r
	}
	a, b := rule("a"), rule("b")
	long := bytes.Repeat([]byte("k"), longestKey+1)
	seen := map[string]int{}
	for i, id := range []string{
		idOf(bucketRecord, a, nil), idOf(bucketRecord, a, []byte("k")), idOf(bucketRecord, b, []byte("k")),
		idOf(penaltyRecord, a, []byte("k")), idOf(bucketRecord, a, long), idOf(bucketRecord, a, long[1:]), idOf(penaltyRecord, a, long),
		shareID(clientRecord, a, []byte("ab"), []byte("c")), shareID(clientRecord, a, []byte("a"), []byte("bc")), shareID(usersRecord, a, []byte("ab"), []byte("c")),
		markID(a, []byte("ab"), []byte("c")), markID(a, []byte("a"), []byte("bc")), markID(b, []byte("a"), []byte("bc")), markID(a, nil, nil),
	} {
		if before, ok := seen[id]; ok {
			t.Errorf("ids %d and %d are equal", before, i)
		}
		seen[id] = i
		if len(id) > 600 {
			t.Errorf("id %d has %d bytes", i, len(id))
		}
	}
}
