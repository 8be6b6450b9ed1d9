package memstore

import (
	"slices"

	"github.com/weblimit/weblimit/core/store/counting"
)

// logs holds the entries of a shard's sliding logs and concurrency limits, apart from its
// table, whose slots hold no pointers. Their weight is the memory of their arrays, not
// their length: otherwise a client could fill a log, let all entries but one expire, and
// go on with the next log.
type logs struct {
	books []book
	free  []int64 // indexes of books
}

// book is one log.
type book struct {
	entries []counting.Entry
	size    int // capacity of the whole array; expired entries lie before entries
}

// bookWeight is the memory of a book itself, in entries.
const bookWeight = 3

// logWeight returns the memory of a log of size entries, in buckets: 0 for no log.
func logWeight(size int) int {
	if size == 0 {
		return 0
	}
	return (size + bookWeight + 3) / 4
}

func (l *logs) acquire() int64 {
	if last := len(l.free) - 1; last >= 0 {
		i := l.free[last]
		l.free = l.free[:last]
		return i
	}
	if n := len(l.books); n == cap(l.books) {
		l.books = append(make([]book, 0, n+n/8+8), l.books...) // append alone would double it
	}
	l.books = append(l.books, book{})
	return int64(len(l.books) - 1)
}

func (s *shard) setLog(i int64, log []counting.Entry, size int) {
	b := &s.logs.books[i]
	s.weight += int32(logWeight(size) - logWeight(b.size))
	*b = book{log, size}
}

func (s *shard) releaseLog(i int64) {
	s.setLog(i, nil, 0)
	s.logs.free = append(s.logs.free, i)
}

// sparse reports whether most books are free.
func (l *logs) sparse() bool { return len(l.free) > len(l.books)/2+32 }

// renumber frees the memory of free books.
func (s *shard) renumber() {
	books := make([]book, 0, len(s.logs.books)-len(s.logs.free))
	for i := range s.slots {
		if slot := &s.slots[i]; slot.kind != 0 && counting.IsLog(slot.kind.algorithm()) {
			books = append(books, s.logs.books[slot.third])
			slot.third = int64(len(books) - 1)
		}
	}
	s.logs.books, s.logs.free = books, nil
}

// trim returns the log to be stored in slot i, and the capacity of its array. A log that
// uses less than half of its array is copied to one that it fills. found says whether the
// slot is in use, by this log or another bucket.
func (s *shard) trim(i int, found bool, log []counting.Entry) (_ []counting.Entry, size int) {
	size = cap(log)
	if found && counting.IsLog(s.slots[i].kind.algorithm()) {
		if b := &s.logs.books[s.slots[i].third]; sameArray(b.entries, log) {
			size = b.size
		}
	}
	if size > 2*len(log)+8 {
		log = slices.Clone(log)
		size = cap(log)
	}
	return log, size
}

// sameArray reports whether a and b are parts of the same array. Both must reach to the
// end of theirs, as logs do: they lose entries in front only.
func sameArray(a, b []counting.Entry) bool {
	return cap(a) > 0 && cap(b) > 0 && &a[:cap(a)][cap(a)-1] == &b[:cap(b)][cap(b)-1]
}
