package substitution_test

import (
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/substitution"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

var formats = []string{
	"text", "100 %% of it", "%PROTOCOL%", "[%START_TIME(%Y/%m/%d %H:%M:%S.%3f)%] %REQ(X-A?:PATH):10%%RESP(B)%", "%START_TIME%",
	"%DYNAMIC_METADATA(a:b):9%", "{%ROUTE_NAME%}", "%RESPONSE_FLAGS% %ENVIRONMENT(HOME)%",
}

var wrong = map[string]string{
	"50%": "at 3", "%": "at 1", "%protocol%": "at 1", "a %PROTOCOL": "at 3", "%%%": "at 3", "%REQ(A%": "at 1", "%REQ(A):x%": "at 1", "%PROTOCOL% %REQ (A)%": "at 12",
}

func TestWhatIsAFormat(t *testing.T) {
	t.Parallel()
	for _, format := range append(formats, "") {
		require.Empty(t, substitution.Wrong(format), format)
	}
	for format, at := range wrong {
		require.Contains(t, substitution.Wrong(format), at, format)
	}
}

// TestEnvoyThinksSo has an Envoy take the formats, and refuse what is none.
func TestEnvoyThinksSo(t *testing.T) {
	t.Parallel()
	envoytest.Validate(t, logging(t, strings.Join(formats, " ")))
	for format := range wrong {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, envoytest.Refusal(t, logging(t, format)))
		})
	}
}

func logging(t *testing.T, format string) *bootstrapv3.Bootstrap {
	t.Helper()
	file, err := anypb.New(&filelogv3.FileAccessLog{Path: "/dev/null", AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{
		LogFormat: &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
			TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: format}},
		}},
	}})
	require.NoError(t, err)
	return &bootstrapv3.Bootstrap{Admin: &bootstrapv3.Admin{AccessLog: []*accesslogv3.AccessLog{{
		Name: "envoy.access_loggers.file", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: file},
	}}}}
}
