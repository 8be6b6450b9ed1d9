package pgstore

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// blocksPage is how many penalties are read at a time.
const blocksPage = 1000

// Blocks implements [store.Store]. It reads the penalties of the rules' keys, a thousand at a
// time, and has the server look at all buckets of the rules for blocks by hand.
func (s *Store) Blocks(ctx context.Context, rules []*store.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) {
		for _, rule := range rules {
			for _, k := range [...]kind{penaltyRecord, penaltyRecord | hashed, bucketRecord, bucketRecord | hashed} {
				if !s.blocksOf(ctx, rule, k, yield) {
					return
				}
			}
		}
	}
}

// blocksOf yields the blocks among a rule's records of one kind. It returns false to stop.
func (s *Store) blocksOf(ctx context.Context, rule *store.Rule, k kind, yield func(store.Blocked, error) bool) bool {
	from := head(k, rule)
	end := successor(head(k, rule))
	for {
		page, err := s.blocked(ctx, k&^hashed, from, end)
		if err != nil {
			return yield(store.Blocked{}, s.errorOf(err))
		}
		for _, p := range page {
			if p.err != nil { // one that can't be read hides no others
				if !yield(store.Blocked{}, s.errorOf(p.err)) {
					return false
				}
			} else if p.blocked && !yield(store.Blocked{Limit: rule.Name, Key: p.key, Until: time.UnixMicro(p.until), Level: p.level}, nil) {
				return false
			}
		}
		if len(page) < blocksPage {
			return true
		}
		from = slices.Concat(page[len(page)-1].id, []byte{0}) // the next id that there can be
	}
}

// successor turns the head of ids into the first string behind them all.
func successor(head []byte) []byte {
	for i := len(head) - 1; i >= 0; i-- {
		if head[i]++; head[i] != 0 {
			break
		}
	}
	return head
}

// stored is a penalty, or a block by hand, that was read.
type stored struct {
	id           []byte
	key          string
	blocked      bool
	until, level int64
	err          error
}

// blocked reads a page of records of a kind that may be blocks.
func (s *Store) blocked(ctx context.Context, k kind, from, end []byte) ([]stored, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout+grace)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer s.release(conn)
	now, _, err := s.time(ctx, conn)
	if err != nil {
		return nil, err
	}
	query := s.sql.blocks
	if k == bucketRecord {
		query = s.sql.manual
	}
	rows, err := conn.Query(ctx, query, from, end, blocksPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []stored
	for rows.Next() {
		var p stored
		r := record{kind: k}
		if err := rows.Scan(&p.id, &r.state); err != nil {
			return nil, err
		}
		p.err = r.open()
		p.key, p.until, p.level = string(r.key), max(r.penalty.Until, r.manual.Until), r.penalty.Level
		p.blocked = p.until > now
		page = append(page, p)
	}
	return page, rows.Err()
}
