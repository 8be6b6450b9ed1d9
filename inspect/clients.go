package inspect

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/metrics/top"
)

const mostClients = 200 // that can be asked for

// denied returns the clients of all limits that were denied most, and those that would have been by limits
// in shadow mode.
func (h *Handler) denied(s *top.Snapshot) (denied, would []pageapi.Client) {
	denied, would = []pageapi.Client{}, []pageapi.Client{}
	for i := range s.Limits {
		l := &s.Limits[i]
		for _, c := range l.MostDenied(overviewClients) {
			if client := clientOf(l, &c); c.Minute.Denied+c.Hour.Denied > 0 {
				denied = append(denied, client)
			} else {
				would = append(would, client)
			}
		}
	}
	for _, list := range [][]pageapi.Client{denied, would} {
		slices.SortStableFunc(list, func(a, b pageapi.Client) int {
			return cmp.Or(
				cmp.Compare(b.Minute.Denied+b.Minute.WouldDeny, a.Minute.Denied+a.Minute.WouldDeny),
				cmp.Compare(b.Hour.Denied+b.Hour.WouldDeny, a.Hour.Denied+a.Hour.WouldDeny),
			)
		})
	}
	return h.labelled(denied, overviewClients), h.labelled(would, overviewClients)
}

// near returns the clients of all limits that came nearest to them without being denied.
func (h *Handler) near(s *top.Snapshot) []pageapi.Client {
	all := []pageapi.Client{}
	for i := range s.Limits {
		l := &s.Limits[i]
		for _, c := range l.Nearest(4 * overviewClients) {
			if c.Used >= 0.5 && c.Hour.Denied+c.Hour.WouldDeny == 0 {
				all = append(all, clientOf(l, &c))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b pageapi.Client) int { return cmp.Compare(b.Used, a.Used) })
	return h.labelled(all, overviewClients)
}

// labelled returns the first n clients with their labels.
func (h *Handler) labelled(clients []pageapi.Client, n int) []pageapi.Client {
	clients = slices.Clip(clients[:min(n, len(clients))])
	for i := range clients {
		clients[i].Label = h.labels.of(clients[i].Key)
	}
	return clients
}

func clientOf(l *top.Limit, c *top.Client) pageapi.Client {
	return pageapi.Client{
		Limit: l.Name, Key: c.Key, Shadow: l.Shadow, Minute: pageapi.Counts(c.Minute), Hour: pageapi.Counts(c.Hour),
		Used: float64(int64(c.Used*1000)) / 1000, UsedAt: c.UsedAt, Seen: c.Seen, Denial: denialOf(&c.Denial),
	}
}

func (h *Handler) serveClients(r *request) *problem {
	query := r.URL.Query()
	n, by, name := 50, query.Get("by"), query.Get("limit")
	if text := query.Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > mostClients {
			return &problem{http.StatusBadRequest, "n must be a number from 1 to " + strconv.Itoa(mostClients) + "."}
		}
	}
	o, err := h.overview(r.Context())
	if err != nil {
		return gone(err)
	}
	l := o.snapshot.Limit(name)
	if l == nil {
		return &problem{http.StatusNotFound, "No limit of this name has decided anything yet."}
	}
	var found []top.Client
	switch by {
	case "denied", "":
		found = l.MostDenied(n)
	case "near":
		found = l.Nearest(n)
	case "busy":
		found = l.Busiest(n)
	default:
		return &problem{http.StatusBadRequest, `by must be "denied", "near" or "busy".`}
	}
	clients := make([]pageapi.Client, len(found))
	for i := range found {
		clients[i] = clientOf(l, &found[i])
	}
	return r.answer(struct {
		At      time.Time        `json:"at"`
		Limit   string           `json:"limit"`
		Clients []pageapi.Client `json:"clients"`
	}{o.At, name, h.labelled(clients, n)})
}
