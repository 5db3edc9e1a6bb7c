package main

import (
	"fmt"
	"slices"
)

// The layout of the sheet.
const (
	sheetWidth           = 1000
	plotLeft, plotRight  = 150, 820
	laneHeight, laneRoom = 18, 14 // a lane shows one distribution; the room is between two scenarios
	headHeight           = 76
	footHeight           = 88
	envoyHeight          = 420
	gridColour           = "#e3e3e3"
)

// lane is one distribution in the plot.
type lane struct {
	scenario string // only in the first lane of a scenario
	what     string
	p50, p95 float64
	max      float64
}

var colours = map[string]string{
	"last proxy": "#1f5fa8", "median proxy": "#2a9d6f", "bare server, last stream": "#9a9a9a", "each commit": "#1f5fa8", "mean of 100": "#d1495b",
}

func lanesOf(r *result) (lanes []lane) {
	if s := r.FirstSync; s != nil {
		lanes = append(lanes, spreadLane("first sync", "last proxy", s.Last), spreadLane("", "median proxy", s.Median))
	}
	for _, c := range r.Changes {
		lanes = append(lanes, spreadLane(c.Scenario, "last proxy", c.Last), spreadLane("", "median proxy", c.Median))
		if c.Floor.Max > 0 {
			lanes = append(lanes, spreadLane("", "bare server, last stream", c.Floor))
		}
	}
	if len(r.Bulk) > 0 {
		var last []float64
		for _, b := range r.Bulk {
			last = append(last, b.Last)
		}
		slices.Sort(last)
		lanes = append(lanes, lane{fmt.Sprintf("%d rows", r.Bulk[0].Rows), "last proxy", last[(len(last)-1)/2], last[len(last)-1], last[len(last)-1]})
	}
	return lanes
}

func spreadLane(scenario, what string, s spread) lane {
	return lane{scenario, what, s.P50, s.P95, s.Max}
}

// draw shows the latencies of each scenario, and below how they grow with the routes of a real
// Envoy.
func (r *result) draw() string {
	lanes := lanesOf(r)
	height := float64(footHeight)
	if len(lanes) > 0 {
		height += headHeight + lanesHeight(lanes)
	}
	if r.Envoy != nil {
		height += envoyHeight
	}
	d := newDrawing(sheetWidth, height)
	top := 0.0
	if len(lanes) > 0 {
		top = d.lanes(r.Parameters, lanes)
	}
	if r.Envoy != nil {
		d.envoy(r.Envoy, top)
	}
	d.text(plotLeft, height-16, rightOf, fmt.Sprintf("commit %s; %s; %s; %s", r.Commit, r.At.Format("2006-01-02"), r.Processors, r.Machine))
	return d.end()
}

func lanesHeight(lanes []lane) (height float64) {
	for _, l := range lanes {
		if l.scenario != "" {
			height += laneRoom
		}
		height += laneHeight
	}
	return height
}

// lanes returns where the lanes end.
func (d *drawing) lanes(o *options, lanes []lane) float64 {
	world := fmt.Sprintf("%d services of %d endpoints, %d proxies (%s)", o.World.Services, o.World.Endpoints, o.Proxies, o.Protocol)
	if o.World.Scope > 0 {
		world += fmt.Sprintf(", %d services visible to each", o.World.Scope)
	}
	d.title(20, 28, "From a change to the proxies that have it: "+world)
	d.legend(lanes)
	var values []float64
	for _, l := range lanes {
		values = append(values, l.p50, l.max)
	}
	x := around(values, plotLeft, plotRight)
	bottom := headHeight + lanesHeight(lanes)
	for _, v := range x.ticks() {
		d.line(x.place(v), headHeight, x.place(v), bottom, 1, gridColour)
		d.text(x.place(v), bottom+18, middle, fmt.Sprintf("%g", v))
	}
	d.text((plotLeft+plotRight)/2, bottom+38, middle, "milliseconds, logarithmic; a dot is p50, the thick line reaches to p95, the thin one to the slowest")
	y := float64(headHeight)
	for _, l := range lanes {
		if l.scenario != "" {
			y += laneRoom
			d.text(plotLeft-12, y+4, leftOf, l.scenario)
		}
		d.lane(l, x, y)
		y += laneHeight
	}
	return bottom + footHeight/2
}

func (d *drawing) lane(l lane, x axis, y float64) {
	colour := colours[l.what]
	d.line(x.place(l.p50), y, x.place(l.max), y, 1.5, colour)
	d.line(x.place(l.p50), y, x.place(l.p95), y, 6, colour)
	d.line(x.place(l.max), y-4, x.place(l.max), y+4, 1.5, colour)
	d.dot(x.place(l.p50), y, 5, colour)
	d.text(plotRight+12, y+4, rightOf, fmt.Sprintf("%.1f · %.1f · %.1f", l.p50, l.p95, l.max))
}

func (d *drawing) legend(lanes []lane) {
	x := float64(plotLeft)
	for _, what := range []string{"last proxy", "median proxy", "bare server, last stream"} {
		if slices.ContainsFunc(lanes, func(l lane) bool { return l.what == what }) {
			x = d.key(x, 52, what)
		}
	}
	d.text(plotRight+12, 56, rightOf, "p50 · p95 · max")
}

// key explains one colour, and returns the place of the next.
func (d *drawing) key(x, y float64, what string) float64 {
	d.dot(x, y, 5, colours[what])
	d.text(x+10, y+4, rightOf, what)
	return x + 36 + 6.5*float64(len(what))
}

// meanOf is the number of routes in the running mean.
const meanOf = 100

// envoy plots each commit over the number of routes.
func (d *drawing) envoy(e *envoyRun, top float64) {
	d.title(20, top+28, fmt.Sprintf("Routes added one by one, until a real Envoy (%s, %s) answers by each", e.Role, e.Protocol))
	d.key(d.key(plotLeft, top+52, "each commit"), top+52, "mean of 100")
	highest := roundUp(slices.Max(e.Times) * 1.01)
	x := axis{low: 0, high: float64(len(e.Times)), from: plotLeft, to: plotRight}
	y := axis{low: 0, high: highest, from: top + envoyHeight - 70, to: top + headHeight}
	for _, v := range y.ticks() {
		d.line(plotLeft, y.place(v), plotRight, y.place(v), 1, gridColour)
		d.text(plotLeft-8, y.place(v)+4, leftOf, fmt.Sprintf("%g", v))
	}
	for _, v := range x.ticks() {
		d.line(x.place(v), y.from, x.place(v), y.from+4, 1, "#222")
		d.text(x.place(v), y.from+18, middle, fmt.Sprintf("%g", v))
	}
	d.text((plotLeft+plotRight)/2, y.from+38, middle, "routes that there are")
	d.upright(plotLeft-60, (y.from+y.to)/2, "milliseconds from before COMMIT to the first answer")
	var mean [][2]float64
	sum := 0.0
	for i, t := range e.Times {
		d.dot(x.place(float64(i)), y.place(t), 1.3, colours["each commit"])
		if sum += t; i >= meanOf {
			sum -= e.Times[i-meanOf]
		}
		if i+1 >= meanOf {
			mean = append(mean, [2]float64{x.place(float64(i)), y.place(sum / meanOf)})
		}
	}
	if len(mean) > 0 {
		d.curve(mean, colours["mean of 100"])
	}
}
