"use strict";
// The button of a section hands out the result that the section contains, byte for byte.
for (const section of document.querySelectorAll("section")) {
  const button = section.querySelector("button.download");
  const result = section.querySelector("script.result");
  button.hidden = false;
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([result.textContent], {type: "application/json"}));
    link.download = result.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });
}
