package client

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever a page of a list is, it is a list of a version, or an error.
func FuzzPage(f *testing.F) {
	f.Add(`{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"a"}},{}]}`)
	f.Add(`{"items":null,"metadata":{"resourceVersion":"7"}}`)
	f.Add(`{"items":[[1],{"a":{}}],"items":[],"metadata":null}`)
	f.Add(`[{"items":[]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		objects := 0
		body := &bounded{from: strings.NewReader(text), left: largest}
		p := &pageReader{Decoder: json.NewDecoder(body), body: body, object: func(d *json.Decoder) error {
			objects++
			return d.Decode(&json.RawMessage{})
		}}
		if p.read() == nil && (p.meta.ResourceVersion == "" || !p.listed) {
			t.Fatal("it is accepted, and has no version")
		}
		if objects > len(text) {
			t.Fatal("there are more objects than bytes")
		}
	})
}

// Whatever an event is, it is passed on, or an error.
func FuzzEvent(f *testing.F) {
	f.Add(`{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}`)
	f.Add(`{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}`)
	f.Add(`{"type":"ERROR","object":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var e Event
		if json.Unmarshal([]byte(text), &e) != nil {
			return
		}
		passed := false
		err := e.pass(func(Event) error { passed = true; return nil })
		if passed == (err != nil) {
			t.Fatalf("%q is passed on: %t, and its error is %v", text, passed, err)
		}
	})
}
