package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// drawing is an SVG being drawn.
type drawing struct {
	strings.Builder

	width, height float64
}

// newDrawing returns a white sheet with a default font.
func newDrawing(width, height float64) *drawing {
	d := &drawing{width: width, height: height}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%[1]g" height="%[2]g" font-family="system-ui, sans-serif" font-size="12" fill="#222">`+"\n",
		width, height)
	fmt.Fprintf(d, `<rect width="%g" height="%g" fill="#fff"/>`+"\n", width, height)
	return d
}

func (d *drawing) end() string {
	d.WriteString("</svg>\n")
	return d.String()
}

func (d *drawing) line(x1, y1, x2, y2, thick float64, colour string) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`+"\n", x1, y1, x2, y2, colour, thick)
}

func (d *drawing) dot(x, y, radius float64, colour string) {
	fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s"/>`+"\n", x, y, radius, colour)
}

// curve connects points.
func (d *drawing) curve(points [][2]float64, colour string) {
	d.WriteString(`<polyline fill="none" stroke-width="2" stroke="` + colour + `" points="`)
	for _, p := range points {
		fmt.Fprintf(d, "%.1f,%.1f ", p[0], p[1])
	}
	d.WriteString("\"/>\n")
}

// Where a text lies relative to its point.
const (
	leftOf  = "end"
	rightOf = "start"
	middle  = "middle"
)

func (d *drawing) text(x, y float64, place, text string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, place, html.EscapeString(text))
}

func (d *drawing) title(x, y float64, text string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="16" font-weight="600">%s</text>`+"\n", x, y, html.EscapeString(text))
}

// upright draws text rotated by 90 degrees.
func (d *drawing) upright(x, y float64, text string) {
	fmt.Fprintf(d, `<text transform="translate(%.1f %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", x, y, html.EscapeString(text))
}

// axis maps values to coordinates.
type axis struct {
	low, high   float64 // coordinates
	from, to    float64 // places
	logarithmic bool
}

func (a axis) place(value float64) float64 {
	low, high := a.low, a.high
	if a.logarithmic {
		value, low, high = math.Log(max(value, low)), math.Log(low), math.Log(high)
	}
	return a.from + (a.to-a.from)*(value-low)/(high-low)
}

// ticks returns round values for an axis: on a logarithmic one 1, 2 and 5 of each power of ten.
func (a axis) ticks() (values []float64) {
	if !a.logarithmic {
		step := roundUp((a.high - a.low) / 8)
		for v := a.low; v <= a.high; v += step {
			values = append(values, v)
		}
		return values
	}
	for power := math.Pow10(int(math.Floor(math.Log10(a.low)))); power <= a.high; power *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * power; v >= a.low && v <= a.high {
				values = append(values, v)
			}
		}
	}
	return values
}

// around returns a logarithmic axis with room for all values.
func around(values []float64, from, to float64) axis {
	a := axis{low: math.Inf(1), from: from, to: to, logarithmic: true}
	for _, v := range values {
		if v > 0 {
			a.low, a.high = min(a.low, v), max(a.high, v)
		}
	}
	if a.high == 0 {
		a.low, a.high = 1, 10
	}
	a.low, a.high = roundUp(a.low/2.5), roundUp(a.high*1.01)
	return a
}

// roundUp returns the next of 1, 2 and 5 times a power of ten.
func roundUp(v float64) float64 {
	power := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, digit := range []float64{1, 2, 5} {
		if v <= digit*power {
			return digit * power
		}
	}
	return 10 * power
}
