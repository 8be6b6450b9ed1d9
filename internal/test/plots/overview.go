package main

import "github.com/weblimit/weblimit/internal/test/figure"

// drawOverview draws the way of a request through an application with limits.
func drawOverview() drawing {
	const (
		left, right = 52.0, 326.0 // the boxes that a request passes
		middle      = (left + right) / 2
		beside      = 392.0 // the store
	)
	f := figure.New(630)
	f.Text(14, 27, figure.Title, figure.Start, "What goes where")

	f.Rect(14, 158, right, 404, 8, figure.Box)
	f.Text(right+4, 177, figure.Soft, figure.End, "your process")
	y := 42.0
	var tops []float64
	for i, b := range []struct {
		class      figure.Class
		name, text string
	}{
		{figure.Box, "client", ""},
		{figure.Box, "proxy", `list it: TrustedProxies("10.0.0.0/8")`},
		{figure.Strip, "bypass", "health checks, partners: not counted"},
		{figure.Strip, "limits for all requests", "r.Use(limits.Limit(perClient))"},
		{figure.Strip, "for a group", `r.Group("/api", limits.Limit(perUser))`},
		{figure.Strip, "for a route", `r.POST("/login", limits.Limit(login), …)`},
		{figure.Box, "your handler", ""},
		{figure.Strip, "settle", "refunds, real costs, free slots"},
	} {
		height := 48.0
		if b.text == "" {
			height = 32
		}
		if i == 2 {
			y += 28 // the frame of the process
		}
		if i > 0 {
			from := y - 18
			if i == 2 {
				from -= 28
			}
			f.Arrow(figure.Point{X: middle, Y: from}, figure.Point{X: middle, Y: y - 3})
		}
		f.Rect(left, y, right-left, height, 5, b.class)
		f.Text(left+10, y+20, figure.Strong, figure.Start, "%s", b.name)
		if b.text != "" {
			f.Text(left+10, y+38, figure.Soft, figure.Start, "%s", b.text)
		}
		tops = append(tops, y)
		y += height + 18
	}
	// What bypasses the limits goes straight to the handler.
	f.Arrow(figure.Point{X: left, Y: tops[2] + 24}, figure.Point{X: 32, Y: tops[2] + 24}, figure.Point{X: 32, Y: tops[6] + 16}, figure.Point{X: left - 3, Y: tops[6] + 16})

	f.Rect(beside, tops[3], 76, tops[7]+48-tops[3], 5, figure.Strip)
	for i, line := range []string{"store", "memory", "or Redis"} {
		class := figure.Soft
		if i == 0 {
			class = figure.Strong
		}
		f.Text(beside+38, (tops[3]+tops[7]+48)/2-14+18*float64(i), class, figure.Middle, "%s", line)
	}
	for _, i := range []int{3, 4, 5, 7} {
		f.Arrow(figure.Point{X: right, Y: tops[i] + 17}, figure.Point{X: beside - 3, Y: tops[i] + 17})
		if i != 7 { // settling needs no answer
			f.Arrow(figure.Point{X: beside, Y: tops[i] + 33}, figure.Point{X: right + 3, Y: tops[i] + 33})
		}
	}
	f.Text(14, 590, figure.Ink, figure.Start, "Within the limits: the handler runs, RateLimit headers are set.")
	f.Text(14, 612, figure.WorstInk, figure.Start, "Over a limit: 429 with Retry-After, no handler runs.")
	return finish(f, "What goes where",
		"A request comes from the client through your proxy into your process. There a bypass lets health checks and partners "+
			"go straight to the handler. Other requests pass the limits for all requests, for their group and for their route; each asks the store, "+
			"in memory or Redis, once. Over a limit the answer is 429 with Retry-After. Otherwise the handler runs, and afterwards refunds, real costs and free slots are settled with the store.")
}
