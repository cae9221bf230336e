-- What the specs of reports look at: the texts of a row of a section, and a section by its title.
local sections = {}

--- The row's cells without marks and styles.
function sections.texts(row)
  local list = {}
  for i, cell in ipairs(row) do
    list[i] = type(cell) == "table" and cell[1] or cell
  end
  return list
end

--- The first of the list with that title; nil: there is none.
function sections.titled(list, title)
  for _, section in ipairs(list) do
    if section.title == title then
      return section
    end
  end
end

return sections
