package top

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// stream is requests of clients, by number.
type stream struct {
	name string
	n    int
	next func(i int) uint64
}

// The clients that are real in streams of an attacker have numbers below this.
const realClients = 150

// streams returns streams of n requests. Their next functions must be called in order, from 0.
func streams(n int) []stream {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.0001, 1, 10_000_000)
	flat := rand.NewZipf(rand.New(rand.NewPCG(2, 1)), 1.0001, 100, 10_000_000)
	random := rand.New(rand.NewPCG(3, 1))
	// One request in 10 is of a real client, of which the first makes twice as many as the last.
	fromReal := func() uint64 {
		for {
			if c := random.IntN(realClients); random.IntN(2*realClients) >= c {
				return uint64(c)
			}
		}
	}
	return []stream{
		{"Zipf", n, func(int) uint64 { return zipf.Uint64() }},
		{"flat Zipf", n, func(int) uint64 { return flat.Uint64() }},
		{"rotating keys", n, func(i int) uint64 {
			if random.IntN(10) == 0 {
				return fromReal()
			}
			return realClients + uint64(i)
		}},
		// First comes a flood that fills every table, then the real clients begin.
		{"rotating keys first", n, func(i int) uint64 {
			if i > n/2 && random.IntN(5) == 0 {
				return fromReal()
			}
			return realClients + uint64(i)
		}},
		// Each key asks 5 times in a row, as much as a limit of logins permits.
		{"rotating keys, 5 times each", n, func(i int) uint64 {
			if random.IntN(10) == 0 {
				return fromReal()
			}
			return realClients + uint64(i)/5
		}},
	}
}

// counted is a client and its requests.
type counted struct {
	client uint64
	n      int64
}

// exactly returns the 100 clients with the most requests, and how many that are.
func (s stream) exactly(add func(client uint64)) []counted {
	counts := make(map[uint64]int64)
	for i := range s.n {
		client := s.next(i)
		counts[client]++
		add(client)
	}
	all := make([]counted, 0, len(counts))
	for client, n := range counts {
		if n > 1 {
			all = append(all, counted{client, n})
		}
	}
	return first(all, 100)
}

func first(all []counted, n int) []counted {
	slices.SortFunc(all, func(a, b counted) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.client, b.client)) })
	return all[:min(n, len(all))]
}

// quality compares what a sketch found with what there is: which share of the first 100 is among
// the first 100 that it found, and the mean and highest error of their counts.
func quality(want, got []counted) (found, mean, worst float64) {
	known := make(map[uint64]int64)
	for _, c := range first(got, 100) {
		known[c.client] = c.n
	}
	hits := 0
	for _, c := range want {
		n, ok := known[c.client]
		if !ok {
			continue
		}
		hits++
		off := float64(max(n-c.n, c.n-n)) / float64(c.n)
		mean += off
		worst = max(worst, off)
	}
	return float64(hits) / float64(len(want)), mean / max(float64(hits), 1), worst
}

// keyOf returns a key as an address makes it.
func keyOf(dst []byte, client uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst[:0], "ip:"...), client*0x9e3779b97f4a7c15)
}

func clientOf(key string) uint64 {
	const inverse = 0xf1de83e19937733d // of the factor
	return binary.BigEndian.Uint64([]byte(key[3:])) * inverse
}
