package sts

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCachedTokenKeepsAMargin(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for life, want := range map[time.Duration]time.Duration{time.Hour: 59 * time.Minute, time.Minute: 48 * time.Second, 10 * time.Second: 8 * time.Second} {
		c := newCache(10)
		a := &answer{expires: noon.Add(life), fields: map[string]json.RawMessage{"expires_in": json.RawMessage("1")}}
		c.put("k", a, noon)
		require.NotNil(t, c.get("k", noon.Add(want-time.Second)))
		require.Equal(t, fmt.Sprint(int64((life-want+time.Second)/time.Second)), string(a.fieldsAt(noon.Add(want - time.Second))["expires_in"]))
		require.Nil(t, c.get("k", noon.Add(want)))
		require.Zero(t, c.len())
	}
	c := newCache(3)
	for n := range 10 {
		c.put(fmt.Sprint(n), &answer{expires: noon.Add(time.Hour)}, noon)
		c.get("0", noon)
	}
	require.Equal(t, 3, c.len())
	require.NotNil(t, c.get("0", noon), "what is used stays")
	require.NotNil(t, c.get("9", noon))
}
