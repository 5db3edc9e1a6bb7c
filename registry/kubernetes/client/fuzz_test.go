package client

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
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

// Whatever a page of protobuf is, it is a list of a version, or an error.
func FuzzCompactPage(f *testing.F) {
	f.Add([]byte("k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x0d\x0a\x06\x12\x017\x1a\x01x\x12\x03\x0a\x01a\x1a\x00\x22\x00"))
	f.Add([]byte("k8s\x00\x12\x05\x0a\x03\x12\x017"))
	f.Add([]byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\xff\xff\xff\x0f"))
	f.Add([]byte("k8s\x00\x12\x02\x08\x01"))
	f.Fuzz(func(t *testing.T, page []byte) {
		objects := 0
		a := &answer{ReadCloser: io.NopCloser(bytes.NewReader(page)), timer: time.NewTimer(time.Hour), compact: true}
		meta, err := a.page(Objects{Protobuf: func([]byte) error {
			objects++
			return nil
		}})
		if err == nil && meta.ResourceVersion == "" {
			t.Fatal("it is accepted, and has no version")
		}
		if objects > len(page) {
			t.Fatal("there are more objects than bytes")
		}
	})
}

// Whatever events of protobuf are, each is passed on, or an error.
func FuzzCompactEvents(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x18\x0a\x05ADDED\x12\x0f\x0a\x0dk8s\x00\x12\x07\x0a\x05\x32\x03123"))
	f.Add([]byte("\x00\x00\x00\x29\x0a\x05ERROR\x12\x20\x0a\x1ek8s\x00\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x0a\x1a\x05x old\x30\x9a\x03"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		next := compactEvents(bytes.NewReader(text))
		for range text {
			e, err := next()
			if err != nil {
				return
			}
			passed := false
			err = e.pass(func(Event) error { passed = true; return nil })
			if passed == (err != nil) {
				t.Fatalf("%v is passed on: %t, and its error is %v", e, passed, err)
			}
		}
		if len(text) > 0 {
			t.Fatal("there are more events than bytes")
		}
	})
}
