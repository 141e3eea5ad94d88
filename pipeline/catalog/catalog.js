"use strict";
// Search, filters and sorting of the index. The state is in the hash of the URL, such as
// #q=motif+seed%3D1&kind=model&sort=-ood_val, so that a view can be shared as a link.
(() => {
  const entries = window.CATALOG;
  const form = document.querySelector(".filters");
  const body = document.querySelector("#list tbody");
  if (!entries || !form || !body) return;
  const rows = [...body.rows];
  const selects = [...form.querySelectorAll("select")];
  const query = form.elements.namedItem("q");
  const heads = [...document.querySelectorAll("#list th")];
  const count = document.getElementById("shown");
  const none = document.getElementById("none");
  let sort = "";
  let written = location.hash;

  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      const key = head.dataset.sort;
      const first = ["name", "count"].includes(key) ? key : "-" + key;
      const second = first === key ? "-" + key : key;
      sort = sort === first ? second : sort === second ? "" : first;
      update();
    });
    head.replaceChildren(button);
  }

  function filter() {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    entries.forEach((entry, i) => {
      const fits =
        words.every((word) => entry.text.includes(word)) &&
        selects.every((select) => !select.value || entry[select.name] === select.value);
      rows[i].hidden = !fits;
      if (fits) shown += 1;
    });
    const all = rows.length.toLocaleString("en");
    count.textContent = shown === rows.length ? `${all} artifacts` : `${shown.toLocaleString("en")} of ${all} artifacts`;
    none.hidden = shown > 0;
  }

  function order() {
    const key = sort.replace(/^-/, "");
    const sign = sort.startsWith("-") ? -1 : 1;
    const numbers = rows.map((_, i) => i);
    if (key) {
      numbers.sort((a, b) => {
        const [x, y] = [entries[a][key], entries[b][key]];
        if (x === undefined || y === undefined) return (x === undefined) - (y === undefined) || a - b;
        return x === y ? a - b : x < y ? -sign : sign;
      });
    }
    body.replaceChildren(...numbers.map((i) => rows[i]));
    for (const head of heads) {
      if (head.dataset.sort !== key) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    }
  }

  function update() {
    filter();
    order();
    const state = new URLSearchParams();
    if (query.value) state.set("q", query.value);
    for (const select of selects) if (select.value) state.set(select.name, select.value);
    if (sort) state.set("sort", sort);
    const hash = state.size ? "#" + state : "";
    if (hash !== written) history.replaceState(null, "", hash || location.pathname + location.search);
    written = hash;
  }

  function read() {
    const state = new URLSearchParams(location.hash.slice(1));
    query.value = state.get("q") ?? "";
    for (const select of selects) {
      const value = state.get(select.name) ?? "";
      select.value = [...select.options].some((option) => option.value === value) ? value : "";
    }
    const wanted = state.get("sort") ?? "";
    sort = heads.some((head) => head.dataset.sort === wanted.replace(/^-/, "")) ? wanted : "";
    written = location.hash;
    filter();
    order();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", update);
  form.addEventListener("reset", () => setTimeout(() => { sort = ""; update(); }));
  addEventListener("hashchange", read);
  form.hidden = false;
  read();
})();
