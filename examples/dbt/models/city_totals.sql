select city, sum(amount) as total from {{ ref("order_cities") }} group by city
