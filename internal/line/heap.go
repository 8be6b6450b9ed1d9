package line

// element is what a heap orders. It knows its place there, so that it can be removed.
type element[T any] interface {
	before(other T) bool
	moved(to int)
}

// heap is a binary heap with the first element at its top.
type heap[T element[T]] struct{ all []T }

func (h *heap[T]) push(x T) {
	h.all = append(h.all, x)
	h.up(len(h.all) - 1)
}

// remove removes the element at i.
func (h *heap[T]) remove(i int) {
	last := len(h.all) - 1
	h.all[i] = h.all[last]
	clear(h.all[last:])
	h.all = h.all[:last]
	if i < last {
		h.fix(i)
	} else if len(h.all) == 0 && cap(h.all) > 64 {
		h.all = nil // what a crowd has taken
	}
}

// fix restores the order after the element at i has changed.
func (h *heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap[T]) up(i int) {
	x := h.all[i]
	for i > 0 {
		above := (i - 1) / 2
		if !x.before(h.all[above]) {
			break
		}
		h.set(i, h.all[above])
		i = above
	}
	h.set(i, x)
}

// down reports whether the element at i has moved.
func (h *heap[T]) down(i int) bool {
	x, from := h.all[i], i
	for {
		below := 2*i + 1
		if below >= len(h.all) {
			break
		}
		if right := below + 1; right < len(h.all) && h.all[right].before(h.all[below]) {
			below = right
		}
		if !h.all[below].before(x) {
			break
		}
		h.set(i, h.all[below])
		i = below
	}
	h.set(i, x)
	return i > from
}

func (h *heap[T]) set(i int, x T) {
	h.all[i] = x
	x.moved(i)
}
