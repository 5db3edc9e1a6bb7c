package terse

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
)

const (
	mostOfText  = 2 << 10
	mostOfStack = 16 << 10 // which is our own
)

// stackKey is the attribute with the stack of a goroutine.
const stackKey = "stack"

// Handler passes records on to another, with texts of a bounded length, and not the same complaint again and
// again.
type Handler struct {
	next    slog.Handler
	repeats *repeats
	peer    string // whom all records are about, "" for nobody
}

// NewHandler returns one that passes on to another.
func NewHandler(next slog.Handler) *Handler { return &Handler{next: next, repeats: newRepeats(next)} }

// Enabled is what the other says.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle passes a record on.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && !h.repeats.allow(&r, h.peerOf(r)) {
		return nil
	}
	long := len(r.Message) > mostOfText
	r.Attrs(func(a slog.Attr) bool {
		long = long || isLong(a)
		return !long
	})
	if long {
		r = shortened(r)
	}
	return h.next.Handle(ctx, r)
}

// peerOf is whom a record is about.
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

// WithAttrs returns one whose records have these too.
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

// WithGroup returns one whose records have their attributes in a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	with := *h
	with.next = h.next.WithGroup(name)
	return &with
}

func shortened(r slog.Record) slog.Record {
	short := slog.NewRecord(r.Time, r.Level, Text(r.Message, mostOfText), r.PC)
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
	return slog.String(a.Key, Text(textOf(a.Value), mostOf(a.Key)))
}

func mostOf(key string) int {
	if key == stackKey {
		return mostOfStack
	}
	return mostOfText
}

// isLong says whether something has to be cut off an attribute.
func isLong(a slog.Attr) bool {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return len(v.String()) > mostOf(a.Key)
	case slog.KindAny:
		return len(textOf(v)) > mostOf(a.Key)
	case slog.KindGroup:
		return slices.ContainsFunc(v.Group(), isLong)
	}
	return false
}

// textOf is a value as a line of the log has it.
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

// errorText does what slog does about an error that is a nil pointer.
func errorText(err error) string { return fmt.Sprintf("%v", err) }
