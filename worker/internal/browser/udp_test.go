package browser_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
)

// udpListener is a UDP socket that records packets and never answers.
type udpListener struct {
	port int

	mu       sync.Mutex
	received [][]byte
}

func newUDPListener(t *testing.T) *udpListener {
	t.Helper()
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	e := &udpListener{port: socket.LocalAddr().(*net.UDPAddr).Port}
	var listening sync.WaitGroup
	listening.Go(func() {
		for buf := make([]byte, 2048); ; {
			n, _, err := socket.ReadFromUDP(buf)
			if err != nil {
				return
			}
			e.mu.Lock()
			e.received = append(e.received, append([]byte(nil), buf[:n]...))
			e.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		socket.Close()
		listening.Wait()
	})
	return e
}

// bindings counts the received packets: STUN binding requests and others.
func (e *udpListener) bindings() (requests, others int) {
	const bindingRequest, cookie = 0x0001, 0x2112a442
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.received {
		if len(p) >= 20 && binary.BigEndian.Uint16(p) == bindingRequest && binary.BigEndian.Uint32(p[4:]) == cookie {
			requests++
		} else {
			others++
		}
	}
	return requests, others
}

// webRTCScript makes a page contact a STUN server and a peer and gather its ICE
// candidates.
const webRTCScript = `(async (stun, peer) => {
	const [a, b] = [new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:" + stun}]}), new RTCPeerConnection()];
	const addresses = [];
	const gathered = new Promise(done => { a.onicecandidate = e => e.candidate ? addresses.push(e.candidate.candidate) : done() });
	a.createDataChannel("x");
	await a.setLocalDescription();
	await b.setRemoteDescription(a.localDescription);
	await b.setLocalDescription();
	await a.setRemoteDescription(b.localDescription);
	await a.addIceCandidate({candidate: "candidate:1 1 udp 2113937151 127.0.0.1 " + peer + " typ host", sdpMid: "0"});
	await Promise.race([gathered, new Promise(done => setTimeout(done, 3000))]);
	window.kept = [a, b];
	return addresses;
})(%d, %d)`

// TestWebRTC_SendsNoUDPAroundProxy tests each installed major version, complete
// browsers and headless shells, because their switches differ. That a browser without a
// proxy sends datagrams shows that the listeners notice them; the quick run shows it once.
func TestWebRTC_SendsNoUDPAroundProxy(t *testing.T) {
	r := newFixture(t)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<title>in</title>") }))
	t.Cleanup(proxy.Close)
	for i, build := range majorBuilds(t) {
		for name, way := range map[string]string{"direct": "", "proxy": proxy.URL} {
			if way == "" && i > 0 && !testenv.Full() {
				continue
			}
			t.Run(fmt.Sprintf("%d %s", build.Major, name), func(t *testing.T) {
				stun, peer := newUDPListener(t), newUDPListener(t)
				spec := r.spec(fmt.Sprintf("udp-%d-%s", build.Major, name))
				spec.Build, spec.ProxyServer = build, way
				b := r.launch(t, spec)
				c := dial(t, b)
				var addresses []string
				c.eval(t, c.open(t, "about:blank"), fmt.Sprintf(webRTCScript, stun.port, peer.port), &addresses)
				if way == "" {
					eventually(t, 10*time.Second, "a binding request to the server and to the peer", func() bool {
						atServer, _ := stun.bindings()
						atPeer, _ := peer.bindings()
						return atServer > 0 && atPeer > 0
					})
				}
				if err := b.Kill(t.Context()); err != nil {
					t.Fatal(err)
				}
				atServer, others := stun.bindings()
				atPeer, more := peer.bindings()
				if way != "" && (atServer > 0 || atPeer > 0 || strings.Contains(strings.Join(addresses, "\n"), " udp ")) {
					t.Errorf("%d and %d binding requests bypassed the proxy; addresses %q", atServer, atPeer, addresses)
				}
				if others+more > 0 {
					t.Errorf("%d other datagrams", others+more)
				}
			})
		}
	}
}
