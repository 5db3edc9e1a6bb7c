package output

import (
	"bytes"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TimeOf returns the time of a message as answers have it, nil for none.
func TimeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	m := t.AsTime()
	return &m
}

// ValueJSON returns the value of a message as answers have it, nil for none.
func ValueJSON(v *structpb.Value) json.RawMessage {
	if v == nil {
		return nil
	}
	spaced, err := protojson.Marshal(v)
	var text bytes.Buffer
	if err != nil || json.Compact(&text, spaced) != nil {
		return nil // NaN or infinite, which cannot happen: the server's values come from JSON
	}
	return text.Bytes()
}
