package quota

import (
	"context"
	"fmt"
	"time"
)

// Detach takes the months that ended before a time out of the book: their accounts are in no
// query, statement or reconciliation any more. In PostgreSQL it detaches partitions, without
// locking anybody out, and returns the names of the tables that these are now, to be archived or
// dropped. A period belongs to the month that it begins in, in UTC.
//
// What tenants with credits have used in those months is kept, since it says what is left of the
// credits. Detach refuses the last 62 days, whose periods may not have ended.
func (b *Book) Detach(ctx context.Context, before time.Time) (tables []string, err error) {
	if time.Since(before) < detachAge {
		return nil, fmt.Errorf("weblimit: quota: detaching: only months that ended 62 days ago can be detached, not those before %v", before)
	}
	tables, err = b.ledger.Detach(ctx, before)
	if err != nil {
		return tables, fmt.Errorf("weblimit: quota: detaching: %w", err)
	}
	return tables, nil
}

// detachAge is how long ago a month must have ended to be detached.
const detachAge = 62 * 24 * time.Hour
