package fields_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

func TestWhatIsReadAndWhatIsLeft(t *testing.T) {
	t.Parallel()
	o := fields.New(map[string]any{
		"service_name": "web", "Port": 8080, "Timeout": "5s", "Older": 1000, "Tags": []any{"v1"}, "Meta": map[string]any{"a_b": true},
		"Check": map[string]any{"Interval": "1s", "HTTP": "x"}, "Nothing": "", "None": []any{}, "List": []any{map[string]any{"Deep": 1}},
	}, report.Place{}, fields.AnyCase)
	require.Equal(t, "web", o.Text("ServiceName"))
	port, there := o.Whole("port")
	require.True(t, there)
	require.EqualValues(t, 8080, port)
	timeout, _ := o.Duration("timeout")
	require.Equal(t, 5*time.Second, timeout)
	older, _ := o.Duration("older")
	require.Equal(t, time.Microsecond, older)
	require.Equal(t, []string{"v1"}, o.Texts("tags"))
	require.Equal(t, map[string]string{"a_b": "true"}, o.Map("meta"), "what people name is as they write it")
	require.Equal(t, "1s", o.Object("check").Text("interval"))
	require.Len(t, o.Objects("list"), 1)
	require.Equal(t, []report.Place{{Path: "Check.HTTP"}, {Path: "List[0].Deep"}}, o.Unread())
}

// What has another type than the one that is wanted is not read, and so it is told.
func TestOfAnotherType(t *testing.T) {
	t.Parallel()
	o := fields.New(map[string]any{"name": []any{"a"}, "port": "x", "list": []any{"a"}, "map": map[string]any{"a": []any{"b"}}, "yes": "no"}, report.Place{}, fields.Exactly)
	require.Empty(t, o.Text("name"))
	_, there := o.Number("port")
	require.False(t, there)
	require.Empty(t, o.Objects("list"))
	require.Empty(t, o.Map("map"))
	require.False(t, o.Yes("yes"))
	require.Nil(t, o.Object("name"))
	require.Len(t, o.Unread(), 5)
	var none *fields.Object
	require.Empty(t, none.Object("a").Text("b"))
	require.Empty(t, none.Unread())
}
