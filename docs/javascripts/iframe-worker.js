// The search of the site runs in a Worker, which browsers do not start from file:// URLs. There, a hidden
// frame takes its place: it loads the same script and exchanges the same messages.
"use strict";

class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.appendChild(this.frame);
    const inner = this.frame.contentWindow;
    inner.document.open();
    inner.document.write("<!doctype html><html><body></body></html>");
    inner.document.close();
    inner.postMessage = (data) => {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    };
    const load = (src) =>
      new Promise((resolve, reject) => {
        const script = inner.document.createElement("script");
        script.src = src;
        script.onload = resolve;
        script.onerror = reject;
        inner.document.body.appendChild(script);
      });
    inner.importScripts = (...urls) => urls.reduce((before, src) => before.then(() => load(src)), Promise.resolve());
    this.loaded = load(new URL(url, document.baseURI).href);
  }

  postMessage(data) {
    const inner = this.frame.contentWindow;
    this.loaded.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

window.IFrameWorker = IFrameWorker;
if (location.protocol === "file:") window.Worker = IFrameWorker;
