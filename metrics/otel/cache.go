package otel

import (
	"maps"
	"sync"
	"sync/atomic"
)

// cache keeps a bounded number of values that are made once and never removed. It is read without
// a lock, and copied to grow. Its zero value is empty.
type cache[K comparable, V any] struct {
	values  atomic.Pointer[map[K]V]
	growing sync.Mutex
}

// find returns the value of a key.
func (c *cache[K, V]) find(key K) (value V, ok bool) {
	if values := c.values.Load(); values != nil {
		value, ok = (*values)[key]
	}
	return value, ok
}

// add returns the value of a key, and makes it by newValue if there is none, unless there are
// bound others. It keeps the key, so that this must not alias a buffer.
func (c *cache[K, V]) add(key K, bound int, newValue func() V) (value V, ok bool) {
	c.growing.Lock()
	defer c.growing.Unlock()
	if value, ok = c.find(key); ok {
		return value, true
	}
	var values map[K]V
	if old := c.values.Load(); old != nil {
		if len(*old) >= bound {
			return value, false
		}
		values = maps.Clone(*old)
	} else {
		values = make(map[K]V, 1)
	}
	value = newValue()
	values[key] = value
	c.values.Store(&values)
	return value, true
}
