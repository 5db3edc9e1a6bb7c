// Whoami stands in for CoreDNS, which one of the suite's applications is. It answers on port 53 as that
// does by the suite's configuration: who has asked. Its flags are CoreDNS's.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"

	"github.com/miekg/dns"
)

func main() {
	flag.String("conf", "", "the configuration, of which only what the suite asks for is known here")
	flag.Parse()
	server := &dns.Server{Addr: ":53", Net: "udp", Handler: dns.HandlerFunc(answer)}
	if err := server.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// answer tells the address of whoever asks.
func answer(w dns.ResponseWriter, question *dns.Msg) {
	out := new(dns.Msg).SetReply(question)
	if from, ok := w.RemoteAddr().(*net.UDPAddr); ok && len(question.Question) == 1 {
		out.Extra = append(out.Extra, &dns.A{Hdr: dns.RR_Header{Name: question.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: from.IP})
	}
	_ = w.WriteMsg(out) // who does not get it asks again
}
