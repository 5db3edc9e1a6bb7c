package terse

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
)

const (
	maxText  = 2 << 10
	maxStack = 16 << 10 // stacks are the program's own
)

// stackKey is the attribute for a goroutine's stack.
const stackKey = "stack"

// Handler passes records on to another handler. It shortens long texts and drops warnings that
// repeat too often.
type Handler struct {
	next    slog.Handler
	repeats *repeats
	peer    string // whom all records are about, "" for nobody
}

// NewHandler returns a Handler in front of next.
func NewHandler(next slog.Handler) *Handler { return &Handler{next: next, repeats: newRepeats(next)} }

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler. Only warnings and errors count as repeats.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && !h.repeats.allow(&r, h.peerOf(r)) {
		return nil
	}
	long := len(r.Message) > maxText
	r.Attrs(func(a slog.Attr) bool {
		long = long || isLong(a)
		return !long
	})
	if long {
		r = shortened(r)
	}
	return h.next.Handle(ctx, r)
}

// peerOf returns the peer that a record names, or "".
func (h *Handler) peerOf(r slog.Record) string {
	peer := h.peer
	r.Attrs(func(a slog.Attr) bool {
		if peer == "" {
			peer = peerIn(a)
		}
		return peer == ""
	})
	return peer
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with, short := *h, make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		if short[i] = shorten(a); with.peer == "" {
			with.peer = peerIn(a)
		}
	}
	with.next = h.next.WithAttrs(short)
	return &with
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	with := *h
	with.next = h.next.WithGroup(name)
	return &with
}

func shortened(r slog.Record) slog.Record {
	short := slog.NewRecord(r.Time, r.Level, Text(r.Message, maxText), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		short.AddAttrs(shorten(a))
		return true
	})
	return short
}

func shorten(a slog.Attr) slog.Attr {
	if !isLong(a) {
		return a
	}
	if v := a.Value.Resolve(); v.Kind() == slog.KindGroup {
		var group []slog.Attr
		for _, in := range v.Group() {
			group = append(group, shorten(in))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	}
	return slog.String(a.Key, Text(textOf(a.Value), limitOf(a.Key)))
}

func limitOf(key string) int {
	if key == stackKey {
		return maxStack
	}
	return maxText
}

// isLong reports whether an attribute must be shortened.
func isLong(a slog.Attr) bool {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return len(v.String()) > limitOf(a.Key)
	case slog.KindAny:
		return len(textOf(v)) > limitOf(a.Key)
	case slog.KindGroup:
		return slices.ContainsFunc(v.Group(), isLong)
	}
	return false
}

// textOf returns a value as the log prints it.
func textOf(v slog.Value) string {
	v = v.Resolve()
	switch x := v.Any().(type) {
	case string:
		return x
	case []byte:
		return string(x)
	case error:
		return errorText(x)
	}
	return fmt.Sprintf("%+v", v.Any())
}

// errorText formats an error like slog, which survives an error that is a nil pointer.
func errorText(err error) string { return fmt.Sprintf("%v", err) }
