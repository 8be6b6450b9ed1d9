package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A client that chooses its own key can try names until it hits a certain slot. With a
// secret, such names are spread over all slots.
func TestClientsChooseTheirSlotUnlessKeysHaveASecret(t *testing.T) {
	t.Parallel()
	plain := keyfuncs.Header("X-Client")
	secret := plain.WithSecret([]byte("0123456789abcdef"))
	slotOf := func(f keyfuncs.Func, value string) int {
		key, _ := f.Key(header{value: value})
		if key == "" {
			t.Fatal("no key")
		}
		return redisstore.SlotOf("weblimit:{" + key + "}")
	}
	const wanted = 4711
	var found []string
	for i := 0; len(found) < 20 && i < 10_000_000; i++ {
		if name := fmt.Sprint("client", i); slotOf(plain, name) == wanted {
			found = append(found, name)
		}
	}
	slots := map[int]bool{}
	for _, name := range found {
		slots[slotOf(secret, name)] = true
	}
	if len(found) < 20 || len(slots) < 18 {
		t.Errorf("%d names of one slot, which are in %d slots under a secret", len(found), len(slots))
	}
}

// header is a request that has this value for every header. Nothing else of it is read.
type header struct {
	keyfuncs.Request
	value string
}

func (h header) Header(_ string, i int) (string, bool) { return h.value, i == 0 }
