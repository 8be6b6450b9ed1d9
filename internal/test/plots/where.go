package main

import "github.com/weblimit/weblimit/internal/test/figure"

// drawWhere draws the three places where a limiter can live, which share one store.
func drawWhere() drawing {
	const (
		gateway = 14.0 // left edges of columns
		app     = 176.0
		other   = 338.0
	)
	f := figure.New(430)
	f.Text(14, 27, figure.Title, figure.Start, "Three places, one quota")

	box := func(x, y, width, height float64, class figure.Class, lines ...string) {
		f.Rect(x, y, width, height, 5, class)
		for i, line := range lines {
			text := figure.Soft
			if i == 0 {
				text = figure.Strong
			}
			f.Text(x+10, y+20+18*float64(i), text, figure.Start, "%s", line)
		}
	}
	to := func(points ...figure.Point) { f.Arrow(points...) }

	box(gateway, 44, 130, 32, figure.Box, "clients")
	to(figure.Point{X: 79, Y: 76}, figure.Point{X: 79, Y: 101})
	box(gateway, 104, 130, 68, figure.Box, "gateway", "knows address,", "path, headers")
	to(figure.Point{X: 144, Y: 138}, figure.Point{X: app - 3, Y: 138})

	box(app, 104, 130, 68, figure.Box, "service in Go", "knows user,", "tenant, outcome")
	box(other, 104, 128, 68, figure.Box, "any program", "Python, jobs,", "Envoy")

	box(gateway, 236, 130, 50, figure.Strip, "weblimitd", "as a subrequest")
	box(app, 236, 130, 50, figure.Strip, "the library", "a function call")
	box(other, 236, 128, 50, figure.Strip, "weblimitd", "HTTP or gRPC")
	for _, x := range []float64{gateway + 65, app + 65, other + 64} {
		to(figure.Point{X: x, Y: 172}, figure.Point{X: x, Y: 233})
		to(figure.Point{X: x, Y: 286}, figure.Point{X: x, Y: 339})
	}
	f.Text(gateway+73, 208, figure.Soft, figure.Start, "edge")
	f.Text(app+73, 208, figure.Soft, figure.Start, "business")
	f.Text(other+72, 208, figure.Soft, figure.Start, "business")

	f.Rect(gateway, 342, 452, 34, 5, figure.Strip)
	f.Text(gateway+226, 364, figure.Strong, figure.Middle, "one Redis, one policy file")

	f.Text(14, 400, figure.Ink, figure.Start, "Different limits at each place: nothing is counted twice.")
	f.Text(14, 420, figure.WorstInk, figure.Start, "The same limit at two places: a request takes two units.")
	return finish(f, "Three places, one quota",
		"Clients reach a gateway, which knows address, path and headers and asks weblimitd by a subrequest. Behind it, a service in Go knows user, tenant and outcome "+
			"and asks the library by a function call. Any other program asks weblimitd by HTTP or gRPC. All three decide on one Redis by one policy file. "+
			"Different limits at each place are counted once; the same limit at two places takes two units of one request.")
}
